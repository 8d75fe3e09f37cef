"""Owns what the schemas of a tool's arguments say where arguments are written one by one: which
arguments are text as it is, what each may be, and what is asked of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from specguide.guided.schema.document.shapes import check_shapes
from specguide.guided.schema.pointers import escaped
from specguide.guided.schema.topics import takes_all

_NOTES = ("title", "description", "examples", "default", "$comment")
_KNOWN = frozenset(
    (
        *(*_NOTES, "$defs", "definitions", "$schema", "$id", "strict"),
        *("type", "properties", "required", "additionalProperties"),
    )
)
_OF_TEXT = frozenset((*_NOTES, "type", "minLength", "maxLength"))
_LISTING = frozenset(("enum", "const"))
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_JUDGING = frozenset(("allOf", "anyOf", "oneOf", "not", "if", *_REFERENCES))
_NAMES = {"boolean": ("true", "false"), "null": ("null",)}
_SHARED = ("$defs", "definitions")
_WHOLE = "urn:arguments"
"""The URI of a tool's arguments where a schema of one of them refers to more than definitions."""
_MOST_LEAST, _MOST_BESIDE_LEAST = 1500, 10_000
"""Largest minLength of a text that is written as it is, and largest maxLength beside one: that no
mark ends a text too soon the library finds out by walking on to its end, wherever a mark begins."""


@dataclass(frozen=True)
class ArgumentsForm:
    """How arguments are written one by one, with `separator` between them:

        before_name · name · before_value · value · after_value

    text_marks:  what stands around a text that is written as it is; None: texts are JSON. What may
                 be no text, has their end in it, a pattern, a format, or a least length beside
                 great ones, is JSON
    before_json: what stands before a value that is written as JSON
    constants:   other words for JSON's true, false and null
    if_none:     what is written where there are no arguments
    """

    before_name: str
    before_value: str
    after_value: str
    separator: str
    text_marks: Sequence[str] | None = None
    before_json: str = ""
    constants: Mapping[str, str] = field(default_factory=dict)
    if_none: str = ""

    @property
    def after_text(self) -> str:
        """All that stands behind a text that is written as it is."""
        return (self.text_marks[1] if self.text_marks else "") + self.after_value

    def written(self, arguments: str) -> str:
        """Arguments, a JSON object, one by one; each string as it is, if texts are."""
        parts = [
            self.before_name + name + self.before_value + self._value(value) + self.after_value
            for name, value in json.loads(arguments).items()
        ]
        return self.separator.join(parts) if parts else self.if_none

    def _value(self, value: Any) -> str:
        if isinstance(value, str) and self.text_marks is not None:
            return self.text_marks[0] + value + self.text_marks[1]
        text = json.dumps(value, ensure_ascii=False)
        return self.before_json + self.constants.get(text, text)


def text_arguments(form: ArgumentsForm | None, parameters: Mapping[str, Any]) -> frozenset[str]:
    """Names of a tool's arguments that are written as they are."""
    if form is None or form.text_marks is None:
        return frozenset()
    return frozenset(name for name, schema in properties_of(parameters) if is_text(form, schema))


def num_schemas(form: ArgumentsForm | None, parameters: Mapping[str, Any]) -> int:
    """Number of JSON schemas in the grammar of a tool's arguments."""
    if form is None:
        return 1
    texts = text_arguments(form, parameters)
    return sum(
        name not in texts and not constants(form, schema)
        for name, schema in properties_of(parameters)
    )


def not_enforced(parameters: Mapping[str, Any]) -> list[str]:
    """The keywords that ask something of all arguments together."""
    return [name for name in sorted(parameters.keys() - _KNOWN) if _asks(name, parameters)]


def _asks(keyword: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a keyword asks anything of arguments beyond what each of them is asked."""
    value = parameters[keyword]
    match keyword:
        case "dependencies" | "dependentRequired" | "dependentSchemas":
            members = [one for one in value.values() if one != []]
        case "allOf":
            members = value
        case "patternProperties":
            return bool(value)
        case "propertyNames":
            return value not in (True, {})
        case "minProperties":
            return bool(value > len(set(parameters.get("required", ()))))
        case "maxProperties":
            return bool(value < len(list(properties_of(parameters))))
        case _:
            return not takes_all({keyword: value}, "object")
    for one in members:
        if isinstance(one, list):
            return True
        check_shapes(one, f"/{keyword}")
        if not takes_all(one, "object"):
            return True
    return False


def properties_of(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name and schema of each argument, in order. Arguments that are required and not described
    have the schema of `additionalProperties`."""
    described = parameters.get("properties", {})
    yield from described.items()
    for name in dict.fromkeys(parameters.get("required", ())):
        if name not in described:
            yield name, parameters.get("additionalProperties", True)


def alone(name: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The schema of an argument with all that it refers to; `root` is that of all of them."""
    if not isinstance(schema, Mapping):
        return schema
    whole = {**schema, **{key: root[key] for key in _SHARED if key in root}}
    if not _refers_beyond_definitions(whole):
        return whole
    described = name in root.get("properties", {})
    step = f"properties/{quote(escaped(name))}" if described else "additionalProperties"
    uri = root["$id"] if isinstance(root.get("$id"), str) else _WHOLE
    draft = {"$schema": root["$schema"]} if "$schema" in root else {}
    named = {**root, "$id": uri, "id": uri}  # draft 4 has the latter
    return {**draft, "$ref": f"{uri}#/{step}", "$defs": {"arguments": named}}


def _refers_beyond_definitions(schema: Any) -> bool:
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, Mapping):
            targets = [one[key] for key in _REFERENCES if isinstance(one.get(key), str)]
            if any(not target.startswith(("#/$defs/", "#/definitions/")) for target in targets):
                return True
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return False


def is_text(form: ArgumentsForm, schema: Any) -> bool:
    """Whether a value can be a text alone, of which no more is asked than can be told of a text as
    it is."""
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    listing = next((keyword for keyword in ("const", "enum") if keyword in schema), None)
    if listing is not None:
        listed = [schema["const"]] if listing == "const" else schema["enum"]
        return (
            not schema.keys() - {*_NOTES, "type", listing}
            and (kinds is None or "string" in (kinds if isinstance(kinds, list) else [kinds]))
            and bool(listed)
            and all(isinstance(one, str) and one for one in listed)
            and all(ends_first(one, form.after_text) for one in listed)
        )
    least, most = schema.get("minLength", 0), schema.get("maxLength", 0)
    if least > 0 and (least > _MOST_LEAST or most > _MOST_BESIDE_LEAST):
        return False
    if least > schema.get("maxLength", least):  # no value fits, and whoever reads schemas says so
        return False
    return kinds in ("string", ["string"]) and not schema.keys() - _OF_TEXT


def ends_first(text: str, mark: str) -> bool:
    """Whether no such mark begins earlier where a mark stands behind a text."""
    return (text + mark).find(mark) == len(text)


def constants(form: ArgumentsForm, schema: Any) -> list[str]:
    """The format's words for all that a value may be, where it may be nothing but true, false or
    null; else none."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    names = _NAMES.get(kind, ()) if isinstance(kind, str) else ()
    if not names or not form.constants or not (_LISTING | _JUDGING).isdisjoint(schema):
        return []
    return [form.constants[name] for name in names]


def constants_among(form: ArgumentsForm, schema: Any) -> list[str]:
    """The format's words for the constants that plainly fit, beside other values."""
    options: Sequence[Any] = [True]
    if isinstance(schema, Mapping) and "anyOf" in schema:
        options = schema["anyOf"]
        schema = {key: value for key, value in schema.items() if key != "anyOf"}
    return [
        form.constants[word]
        for kind, words in _NAMES.items()
        for word in words
        if word in form.constants
        and _fits_plainly(schema, kind, word)
        and any(_fits_plainly(option, kind, word) for option in options)
    ]


def _fits_plainly(schema: Any, kind: str, word: str) -> bool:
    """Whether a constant is an instance by its type, and by the values that are listed."""
    if not isinstance(schema, Mapping):
        return schema is True
    kinds = schema.get("type", kind)
    value = json.loads(word)
    lists = [schema.get("enum"), [schema["const"]] if "const" in schema else None]
    return (
        _JUDGING.isdisjoint(schema)
        and kind in (kinds if isinstance(kinds, list) else [kinds])
        and all(one is None or any(value is other for other in one) for one in lists)
    )
