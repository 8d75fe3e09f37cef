"""Owns the question whether a JSON value is an instance of a core schema, asked where an enum
leaves few values."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import kept, spend
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.nfa import TextMatcher
from specguide.guided.regex.parse import UnsupportedRegex, parse
from specguide.guided.regex.writer import whole
from specguide.guided.schema.core import Core, CoreSchema
from specguide.guided.schema.disjoint import json_type, keys_by_type, value_key

MAX_NAMES = 64
"""Up to so many names that a pattern matches are few: they may be written out as properties."""


def takes(core: CoreSchema, value: Any, definitions: Mapping[str, CoreSchema]) -> bool:
    """Whether `value` is an instance of `core`, whose references point into `definitions`."""
    spend(4)
    if isinstance(core, bool):
        return core
    if "$ref" in core and not takes(
        definitions[core["$ref"].rpartition("/")[2]], value, definitions
    ):
        return False
    if not all(takes(part, value, definitions) for part in core.get("allOf", ())):
        return False
    if "anyOf" in core and not any(takes(option, value, definitions) for option in core["anyOf"]):
        return False
    if "enum" in core and value_key(value) not in keys_by_type(core["enum"]).get(
        json_type(value), ()
    ):
        return False
    name = json_type(value)
    if not has_type(value, core.get("type")):
        return False
    if name == "number":
        return _takes_number(core, value)
    if name == "string":
        return _takes_string(core, value)
    if name == "array":
        return _takes_array(core, value, definitions)
    return name != "object" or _takes_object(core, value, definitions)


def has_type(value: Any, named: str | list[str] | None) -> bool:
    """Whether a value is of the type, or one of the types, that `type` names; None names all."""
    names = [named] if isinstance(named, str) else named
    return (
        names is None
        or json_type(value) in names
        or ("integer" in names and json_type(value) == "number" and value == int(value))
    )


@kept
def pattern_automaton(pattern: str) -> Automaton:
    """The strings that a core's `pattern` matches. Raises UnsupportedRegex where there are too many
    states."""
    return automaton(whole(parse(pattern), search=True))


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether a core's `pattern` matches a string. Raises UnsupportedGuide for absurd
    repetitions."""
    try:
        return _pattern_matcher(pattern).matches(text)
    except UnsupportedRegex as error:
        raise UnsupportedGuide(str(error), keyword="pattern") from error


@kept
def _pattern_matcher(pattern: str) -> TextMatcher:
    return TextMatcher(whole(parse(pattern), search=True))


def _takes_number(core: Core, value: Any) -> bool:
    if "not" in core and exact(value).denominator == 1:
        return False
    if "multipleOf" in core and exact(value) % exact(core["multipleOf"]) != 0:
        return False
    return (
        core.get("minimum", value) <= value <= core.get("maximum", value)
        and ("exclusiveMinimum" not in core or core["exclusiveMinimum"] < value)
        and ("exclusiveMaximum" not in core or value < core["exclusiveMaximum"])
    )


def exact(number: int | float) -> Fraction:
    """A number as it is written in decimal."""
    return Fraction(repr(number))


def _takes_string(core: Core, value: str) -> bool:
    return core.get("minLength", 0) <= len(value) <= core.get("maxLength", len(value)) and (
        "pattern" not in core or pattern_matches(core["pattern"], value)
    )


def _takes_array(core: Core, value: list[Any], definitions: Mapping[str, CoreSchema]) -> bool:
    prefix = core.get("prefixItems", [])
    wanted = [*prefix[: len(value)], *[core.get("items", True)] * (len(value) - len(prefix))]
    return core.get("minItems", 0) <= len(value) <= core.get("maxItems", len(value)) and all(
        takes(child, item, definitions) for child, item in zip(wanted, value, strict=True)
    )


def _takes_object(core: Core, value: dict[str, Any], definitions: Mapping[str, CoreSchema]) -> bool:
    return (
        core.get("minProperties", 0) <= len(value) <= core.get("maxProperties", len(value))
        and all(name in value for name in core.get("required", ()))
        and all(
            takes(child, item, definitions)
            for name, item in value.items()
            for child in asked_of(core, name)
        )
    )


def asked_of(core: Core, name: str) -> list[CoreSchema]:
    """What an object schema's own keywords ask of the property `name`."""
    found = [core["properties"][name]] if name in core.get("properties", {}) else []
    found += [
        child
        for pattern, child in core.get("patternProperties", {}).items()
        if pattern_matches(pattern, name)
    ]
    return found or [core.get("additionalProperties", True)]
