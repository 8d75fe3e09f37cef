"""Owns calls whose arguments are written one by one, and not as a JSON object: which of them are
text as it is, and their grammar in Lark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guided.lark.literal import literal
from specguide.guided.lark.schema import schema_term
from specguide.guided.schema.document import escaped
from specguide.guided.schema.shapes import check_shapes
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
_JUDGING = frozenset(("allOf", "oneOf", "not", "if", "$ref"))
_NAMES = {"boolean": ("true", "false"), "null": ("null",)}
_SHARED = ("$defs", "definitions")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_WHOLE = "urn:arguments"
"""The URI of a tool's arguments where a schema of one of them refers to more than definitions."""
_MOST_LEAST, _MOST_BESIDE_LEAST = 1500, 10_000
"""Largest minLength of a text that is written as it is, and largest maxLength beside one: that no
mark ends a text too soon the library finds out by walking on to its end, wherever a mark begins."""


@dataclass(frozen=True)
class ArgumentsForm:
    """How arguments are written one by one, with `separator` between them:

        before_name · name · before_value · value · after_value

    text_marks: what stands around a text that is written as it is; None: texts are JSON. What may
                be no text, has their end in it, a pattern, a format, or a least length beside great
                ones, is JSON
    constants:  other words for JSON's true, false and null
    """

    before_name: str
    before_value: str
    after_value: str
    separator: str
    text_marks: Sequence[str] | None = None
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def after_text(self) -> str:
        """All behind a text that is written as it is."""
        return (self.text_marks[1] if self.text_marks else "") + self.after_value

    def written(self, arguments: str) -> str:
        """Arguments, a JSON object, one by one; each string as it is, if texts are."""
        parts = [
            self.before_name + name + self.before_value + self._value(value) + self.after_value
            for name, value in json.loads(arguments).items()
        ]
        return self.separator.join(parts)

    def _value(self, value: Any) -> str:
        if isinstance(value, str) and self.text_marks is not None:
            return self.text_marks[0] + value + self.text_marks[1]
        text = json.dumps(value, ensure_ascii=False)
        return self.constants.get(text, text)


def text_arguments(form: ArgumentsForm | None, parameters: Mapping[str, Any]) -> frozenset[str]:
    """Names of a tool's arguments that are written as they are."""
    if form is None or form.text_marks is None:
        return frozenset()
    return frozenset(name for name, schema in _properties(parameters) if _is_text(form, schema))


def num_schemas(form: ArgumentsForm | None, parameters: Mapping[str, Any]) -> int:
    """JSON schemas in the grammar of a tool's arguments."""
    if form is None:
        return 1
    texts = text_arguments(form, parameters)
    return sum(
        name not in texts and not _constants(form, schema)
        for name, schema in _properties(parameters)
    )


class ArgumentRules:
    """Arguments of tools as rules.

    after: stands behind the arguments
    terms: writes a text as Lark, in which special tokens are such
    """

    def __init__(
        self, form: ArgumentsForm, after: str, terms: Callable[[str], str], limits: GuideConfig
    ) -> None:
        self._form, self._after, self._terms, self._limits = form, after, terms, limits
        self._num_tools = 0
        self._own: list[str] = []  # lines of the tool at hand
        self._shared: dict[str, None] = {}

    @property
    def shared(self) -> list[str]:
        """The rules that terms of several tools need."""
        return list(self._shared)

    def of(self, parameters: Mapping[str, Any], param: str) -> tuple[str, list[str]]:
        """A tool's arguments as a term, "" for none, and the rules that it alone needs. Raises
        UnsupportedGuide for what is not enforced, and InvalidGuide for what is no schema."""
        check_shapes(parameters, "")
        for name, schema in _properties(parameters):
            check_shapes(schema, f"/properties/{escaped(name)}")
        self._own = []
        return self._term(parameters, param), self._own

    def _term(self, parameters: Mapping[str, Any], param: str) -> str:
        unknown = [name for name in sorted(parameters.keys() - _KNOWN) if _asks(name, parameters)]
        if unknown:
            error = UnsupportedGuide(
                f"{unknown[0]} of a tool's arguments cannot be enforced in this model's tool "
                "format, which writes them one by one; leave it out",
                keyword=unknown[0],
            )
            error.param = param
            raise error
        for name, _ in _properties(parameters):
            self._check_name(name, param)
        required = set(parameters.get("required", ()))
        terms = [
            (
                self._terms(self._form.before_name + name + self._form.before_value)
                + f" {self._value(name, schema, parameters)}",
                name in required,
            )
            for name, schema in _properties(parameters)
        ]
        self._num_tools += 1
        separator = self._terms(self._form.separator)
        if terms and separator and not terms[0][1]:
            return self._chain(terms, separator)
        parts = [
            _perhaps(f"{separator} {term}" if i else term, is_required)
            for i, (term, is_required) in enumerate(terms)
        ]
        if not terms:
            return ""
        self._own.append(f"a_{self._num_tools}: {' '.join(parts)}")
        return f"a_{self._num_tools}"

    def _check_name(self, name: str, param: str) -> None:
        form = self._form
        is_read = _ends_first(name, form.before_value) and "<[" not in self._terms(name)
        if not name or not is_read or (form.before_name + name).startswith(self._after):
            error = UnsupportedGuide(
                f"an argument cannot be named {name!r} in this model's tool format, whose marks "
                "could not be told from the name; give it another name"
            )
            error.param = param
            raise error

    def _chain(self, terms: Sequence[tuple[str, bool]], separator: str) -> str:
        """Arguments of which any may be the first, and has no separator before it then."""
        first = later = '""'
        for i, (term, is_required) in reversed(list(enumerate(terms))):
            name = f"a_{self._num_tools}_{i}"
            self._own.append(f"{name}: {term}")
            ways = [f"{name} {later}"] if is_required else [f"{name} {later}", first]
            self._own.append(f"{name}_first: {' | '.join(ways)}")
            self._own.append(f"{name}_next: {_perhaps(f'{separator} {name}', is_required)} {later}")
            first, later = f"{name}_first", f"{name}_next"
        return first

    def _value(self, name: str, schema: Any, root: Mapping[str, Any]) -> str:
        form = self._form
        after = self._terms(form.after_value)
        if constants := _constants(form, schema):
            return f"({' | '.join(map(self._terms, constants))}) {after}"
        if form.text_marks is None or not _is_text(form, schema):
            value = schema_term(_alone(name, schema, root), self._limits)
            if words := _constants_among(self._form, schema):
                value = f"({' | '.join(map(self._terms, words))} | {value})"
            return f"{value} {after}"
        return f"{self._terms(form.text_marks[0])} {self._text(schema)}"

    def _text(self, schema: Mapping[str, Any]) -> str:
        """A text up to what is behind it."""
        after = self._terms(self._form.after_text)
        listed = [schema["const"]] if "const" in schema else schema.get("enum")
        if listed is not None:
            return f"({' | '.join(map(literal, listed))}) {after}"
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength", "")
        most = most if most == "" else int(most)
        text = f"/(?s:.{{{least},{most}}})/"
        first, _, rest = after.partition(" ")
        if not first.startswith('"'):  # a special token, which is in no text
            name = f"TEXT_{least}_{most}"
            self._shared[f"{name}: {text}"] = None
            return f"{name} {after}"
        name = f"text_{least}_{most}"  # with the first of these marks, of which two may overlap
        sooner = f" & ~(/(?s:.{{0,{least - 1}}})/ {first} /(?s:.*)/)" if least else ""
        self._shared[f"{name}[lazy]: {text} {first}{sooner}"] = None
        return f"{name} {rest}"


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
            return bool(value < len(list(_properties(parameters))))
        case _:
            return not takes_all({keyword: value}, "object")
    for one in members:
        if isinstance(one, list):
            return True
        check_shapes(one, f"/{keyword}")
        if not takes_all(one, "object"):
            return True
    return False


def _perhaps(term: str, is_required: bool) -> str:
    return term if is_required else f"({term})?"


def _properties(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """In their order; those that are required and not described are what others must be."""
    described = parameters.get("properties", {})
    yield from described.items()
    for name in dict.fromkeys(parameters.get("required", ())):
        if name not in described:
            yield name, parameters.get("additionalProperties", True)


def _alone(name: str, schema: Any, root: Mapping[str, Any]) -> Any:
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


def _is_text(form: ArgumentsForm, schema: Any) -> bool:
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
            and all(_ends_first(one, form.after_text) for one in listed)
        )
    least, most = schema.get("minLength", 0), schema.get("maxLength", 0)
    if least > 0 and (least > _MOST_LEAST or most > _MOST_BESIDE_LEAST):
        return False
    return kinds in ("string", ["string"]) and not schema.keys() - _OF_TEXT


def _ends_first(text: str, mark: str) -> bool:
    """Whether a mark that stands behind a text is the first one there."""
    return (text + mark).find(mark) == len(text)


def _constants(form: ArgumentsForm, schema: Any) -> list[str]:
    """All that a value may be, where it has constants alone, of which there are other words."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    names = _NAMES.get(kind, ()) if isinstance(kind, str) else ()
    if not names or not form.constants or not (_LISTING | _JUDGING).isdisjoint(schema):
        return []
    return [form.constants[name] for name in names]


def _constants_among(form: ArgumentsForm, schema: Any) -> list[str]:
    """Other words for the constants that plainly fit, among other values."""
    if not isinstance(schema, Mapping) or not _JUDGING.isdisjoint(schema):
        return []
    options = [one for one in schema.get("anyOf", ()) if isinstance(one, Mapping)]
    plain = [one.get("type") for one in options if (_LISTING | _JUDGING).isdisjoint(one)]
    kinds = schema.get("type", plain)
    words = [
        word
        for kind, words_of_kind in _NAMES.items()
        if kind in (kinds if isinstance(kinds, list) else [kinds])
        and ("anyOf" not in schema or kind in plain)
        for word in words_of_kind
    ]
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [True, False, None])
    fitting = {json.dumps(value) for value in listed}
    return [form.constants[word] for word in words if word in fitting and word in form.constants]
