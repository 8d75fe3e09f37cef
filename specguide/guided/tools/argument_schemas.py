"""Owns the reading of argument schemas for formats that write arguments one by one: which arguments
are raw text, which values each may have, and what is required of all of them together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from specguide.guided.schema.document.shapes import check_shapes
from specguide.guided.schema.json_values import is_object
from specguide.guided.schema.topics import takes_all
from specguide.guided.tools.arguments_form import ArgumentsForm, kind_of
from specguide.guided.tools.words import CONSTANTS_OF, LISTING, NOTES

_KNOWN = frozenset(
    (
        *(*NOTES, "$defs", "definitions", "$schema", "$id", "strict"),
        *("type", "properties", "required", "additionalProperties"),
    )
)
_OF_TEXT = frozenset((*NOTES, "type", "minLength", "maxLength"))
_SCALARS = frozenset((str, int, float, bool, type(None)))
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_JUDGING = frozenset(("allOf", "anyOf", "oneOf", "not", "if", *_REFERENCES))
_SHARED = ("$defs", "definitions")
_WHOLE = "urn:arguments"
"""The URI of a tool's arguments, where an argument's schema refers to more than definitions."""
_VALUES = {word: json.loads(word) for words in CONSTANTS_OF.values() for word in words}
_MOST_LEAST, _MOST_BESIDE_LEAST = 1500, 10_000
"""Largest minLength of a raw text, and largest maxLength beside a minLength: to ensure that no mark
ends such a text too early, the library walks on to its end from wherever a mark begins."""


def not_enforced(parameters: Mapping[str, Any]) -> list[str]:
    """The keywords that constrain all arguments together."""
    return [
        name for name in sorted(parameters.keys() - _KNOWN) if _constrains_several(name, parameters)
    ]


def _constrains_several(keyword: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a keyword constrains arguments beyond the schema of each of them."""
    value = parameters[keyword]
    match keyword:
        case "dependencies" | "dependentRequired" | "dependentSchemas":
            members = [member for member in value.values() if member != []]
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
    for member in members:
        if isinstance(member, list):
            return True
        check_shapes(member, f"/{keyword}")
        if not takes_all(member, "object"):
            return True
    return False


def properties_of(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name and schema of each argument, in order. Required arguments that are not described
    have the schema of `additionalProperties`."""
    described = parameters.get("properties", {})
    yield from described.items()
    for name in dict.fromkeys(parameters.get("required", ())):
        if name not in described:
            yield name, parameters.get("additionalProperties", True)


def allows_nothing(schema: Any) -> bool:
    """Whether certainly no value fits: the schema is false, or all values that it lists have other
    types than its own."""
    if not isinstance(schema, Mapping) or "type" not in schema:
        return schema is False
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return listed is not None and not any(may_be(name, value) for name in types for value in listed)


def may_be(type_name: str, value: Any) -> bool:
    """Whether a value may be of a type of JSON Schema; any number may be an integer."""
    return kind_of(value) == ("number" if type_name == "integer" else type_name)


class LoneSchemas:
    """Schemas of single values, each made complete with what it refers to. root: the schema of all
    arguments"""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._shared = {key: root[key] for key in _SHARED if key in root}
        self._are_closed = not refers_beyond_definitions(self._shared)

    def of(self, pointer: str, schema: Any) -> Any:
        """A schema that stands alone. pointer: its place in the root"""
        targets = _targets(schema)
        if not targets:
            return schema
        if self._are_closed and all(map(_is_definition, targets)):
            return {**schema, **self._shared}
        root = self._root
        uri = root["$id"] if isinstance(root.get("$id"), str) else _WHOLE
        draft = {"$schema": root["$schema"]} if "$schema" in root else {}
        named = {**root, "$id": uri, "id": uri}  # draft 4 names it `id`
        return {**draft, "$ref": f"{uri}#{quote(pointer)}", "$defs": {"arguments": named}}


def refers_beyond_definitions(schema: Any) -> bool:
    """Whether a schema refers to more than definitions."""
    return not all(map(_is_definition, _targets(schema)))


def _is_definition(target: str) -> bool:
    return target.startswith(("#/$defs/", "#/definitions/"))


def _targets(schema: Any) -> list[str]:
    """The references in a schema."""
    targets: list[str] = []
    todo = [schema]
    while todo:
        one = todo.pop()
        if is_object(one):
            targets += [one[key] for key in _REFERENCES if key in one and isinstance(one[key], str)]
            todo += [value for value in one.values() if type(value) not in _SCALARS]
        elif isinstance(one, list):
            todo += one
    return targets


def is_text(form: ArgumentsForm, schema: Any, after: str) -> bool:
    """Whether a value must be a text, and its schema has no constraints but those that a raw text
    can fulfil. after: the text behind the value"""
    if form.text_marks is None or not is_object(schema):
        return False
    mark = form.text_marks[1] + after
    kinds = schema.get("type")
    if "const" in schema or "enum" in schema:
        listing = "const" if "const" in schema else "enum"
        listed = listed_of(schema)
        return (
            not schema.keys() - {*NOTES, "type", listing}
            and (kinds is None or "string" in (kinds if isinstance(kinds, list) else [kinds]))
            and bool(listed)
            and all(isinstance(value, str) for value in listed)
            and all(_is_read(form, value, mark) for value in listed)
        )
    least, most = schema.get("minLength", 0), schema.get("maxLength", 0)
    is_searched = least > 0 and not form.is_quoted
    if is_searched and (least > _MOST_LEAST or most > _MOST_BESIDE_LEAST):
        return False
    if least > schema.get("maxLength", least):  # no value fits, as the reader of schemas reports
        return False
    return kinds in ("string", ["string"]) and _OF_TEXT.issuperset(schema)


def _is_read(form: ArgumentsForm, text: str, mark: str) -> bool:
    """Whether a listed text is read back as it was written. mark: the text behind it"""
    if form.is_quoted:
        return not form.barred or form.barred not in text
    return bool(text) and ends_first(text, mark)


def listed_of(schema: Mapping[str, Any]) -> Sequence[Any]:
    """The values that a schema lists; empty where it lists none."""
    return [schema["const"]] if "const" in schema else schema.get("enum", ())


def ends_first(text: str, mark: str) -> bool:
    """Whether, in a text and the mark behind it, the mark begins nowhere earlier."""
    return (text + mark).find(mark) == len(text)


def can_be_named(form: ArgumentsForm, name: str, after: str) -> bool:
    """Whether a value's name is read back as it was written. after: the text behind all values"""
    is_read = bool(name) and ends_first(name, form.before_value)
    return is_read and not (form.before_name + name).startswith(after)


def constants(form: ArgumentsForm, schema: Any) -> list[str]:
    """The format's words for all values of a schema, where they can only be true, false or null;
    else empty."""
    kind = schema.get("type") if is_object(schema) else None
    names = CONSTANTS_OF.get(kind, ()) if isinstance(kind, str) else ()
    if not names or not form.constants or not (LISTING | _JUDGING).isdisjoint(schema):
        return []
    return [word for name in names for word in form.words(name)]


def constants_among(form: ArgumentsForm, schema: Any) -> list[str]:
    """The format's words for the constants that certainly fit, beside other values."""
    kind = schema.get("type") if is_object(schema) else None
    if not form.constants or (isinstance(kind, str) and kind not in CONSTANTS_OF):
        return []
    options: Sequence[Any] = [True]
    if isinstance(schema, Mapping) and "anyOf" in schema:
        options = schema["anyOf"]
        schema = {key: value for key, value in schema.items() if key != "anyOf"}
    return [
        form.constants[word]
        for kind, words in CONSTANTS_OF.items()
        for word in words
        if word in form.constants
        and _fits_plainly(schema, kind, word)
        and any(_fits_plainly(option, kind, word) for option in options)
    ]


def _fits_plainly(schema: Any, kind: str, word: str) -> bool:
    """Whether a constant fits by its type and by the listed values."""
    if not isinstance(schema, Mapping):
        return schema is True
    kinds = schema.get("type", kind)
    if kind not in kinds if isinstance(kinds, list) else kind != kinds:
        return False
    if not _JUDGING.isdisjoint(schema):
        return False
    value = _VALUES[word]
    lists = [schema.get("enum"), [schema["const"]] if "const" in schema else None]
    return all(one is None or any(value is other for other in one) for one in lists)


def asks_for_distinct_items(schema: Any) -> bool:
    """Whether a schema has `uniqueItems`, at any depth."""
    todo = [schema]
    while todo:
        one = todo.pop()
        if is_object(one):
            if one.get("uniqueItems") is True:
                return True
            todo += one.values()
        elif isinstance(one, list | tuple):
            todo += one
    return False
