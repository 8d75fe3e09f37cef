"""Owns the rewriting of what JSON Schema says of types, constants, numbers and strings into the
core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from specguide.guided.budget import spend
from specguide.guided.schema.core import (
    Core,
    CoreSchema,
    Target,
    read_pattern,
    refuse,
    write_pattern,
)
from specguide.guided.schema.disjoint import json_type
from specguide.guided.schema.document import TYPES, Place
from specguide.guided.schema.formats import FORMAT_LENGTHS, FORMATS, FORMATS_ALSO, SHORT_FORMATS
from specguide.guided.schema.shapes import check_shapes, is_number

if TYPE_CHECKING:
    from specguide.guided.schema.normalise import Lowering

NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
STRING = ("minLength", "maxLength", "pattern", "format")
ARRAY = (
    "prefixItems",
    "items",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
)
OBJECT = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "unevaluatedProperties",
)
_APPLIED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_JUDGED = frozenset(
    {
        *NUMBER,
        *STRING,
        *ARRAY,
        *OBJECT,
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
    }
)
_OF_TYPES = frozenset((*NUMBER, *STRING, *ARRAY, *OBJECT))


def allowed_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a subschema's own `type` allows; integers are numbers."""
    named = schema.get("type", TYPES)
    return frozenset(
        "number" if name == "integer" else name
        for name in ([named] if isinstance(named, str) else named)
    )


def lower_type(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    """The core of `type`, where the other keywords do not say it already."""
    others = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    if "const" in schema or "enum" in schema:
        return
    if (
        not _APPLIED.isdisjoint(others)
        and _OF_TYPES.isdisjoint(others)
        and "integer" not in schema["type"]
        and lowering.comparison.possible_types((others, place)) <= allowed_types(schema)
    ):
        return
    yield Core(place.path, type=schema["type"])


def lower_values(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """The core of `const` and `enum`: the values that fit the type, if any."""
    values = [schema["const"]] if "const" in schema else schema["enum"]
    fitting = [value for value in values if _has_type(value, schema.get("type"))]
    keyword = "const" if "const" in schema else "enum"
    for value in fitting:
        _check_exact(value, keyword, place.path)
    yield Core(place.path, enum=fitting) if fitting else False
    if "const" in schema and "enum" in schema:
        yield from lower_values(
            lowering, {key: value for key, value in schema.items() if key != "const"}, place
        )


def listed_values(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> CoreSchema | None:
    """The core of a subschema that lists its values and asks more of them: each is judged by all
    that is asked.

    None where it lists none, asks no more than a type, or no listed value is certain to fit, though
    one may.
    """
    if schema.keys() & {"const", "enum"}:
        if schema.keys().isdisjoint(_JUDGED):
            return None
    elif "allOf" not in schema and (
        "$ref" not in schema or schema.keys().isdisjoint(_JUDGED | {"type"})
    ):
        return None
    found = next(
        (
            (part, there)
            for part, there in lowering.comparison.conjuncts((schema, place))
            if "const" in part or "enum" in part
        ),
        None,
    )
    if found is None:
        return None
    part, there = found
    check_shapes(part, there.path)
    keyword = "const" if "const" in part else "enum"
    values = [part["const"]] if keyword == "const" else part["enum"]
    answers = [lowering.instances.fits(schema, place, value) for value in values]
    fitting = [value for value, answer in zip(values, answers, strict=True) if answer]
    if not fitting and None in answers:
        return None
    for value in fitting:
        _check_exact(value, keyword, there.path)
    return Core(there.path, enum=fitting) if fitting else False


def lower_number(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """The core of a subschema's number keywords; draft 4's boolean bounds become numbers."""
    core = Core(place.path)
    for keyword, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        bound = schema.get(keyword)
        if schema.get(exclusive) is True and bound is not None:  # draft 4
            keyword = exclusive
        elif is_number(schema.get(exclusive)):
            core[exclusive] = _whole(schema[exclusive])
        if bound is not None:
            core[keyword] = _whole(bound)
    if "multipleOf" in schema:
        core["multipleOf"] = _whole(schema["multipleOf"])
    yield core


def lower_string(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """The core of a subschema's string keywords; a format becomes a pattern."""
    core = Core(
        place.path,
        {
            keyword: int(schema[keyword])
            for keyword in ("minLength", "maxLength")
            if keyword in schema
        },
    )
    patterns = [("pattern", schema["pattern"])] if "pattern" in schema else []
    formats, longest = _format(schema.get("format"), lowering.short_formats)
    if longest is not None:
        core["maxLength"] = min(longest, core.get("maxLength", longest))
    if core and lowering.target.narrow:
        any_char = "[\\0-\\u{10FFFF}]"
        patterns.append(
            ("maxLength", f"^{any_char}{{{core.pop('minLength', 0)},{core.pop('maxLength', '')}}}$")
        )
    texts = [
        (keyword, write_pattern(read_pattern(pattern, keyword, place.path), lowering.target))
        for keyword, pattern in patterns
    ]
    texts += [("format", _written(pattern, lowering.target)) for pattern in formats]
    for keyword, text in texts:
        if text is None:
            raise refuse(keyword, place.path, "no string that can be generated matches it")
        if "pattern" in core:
            yield Core(place.path, pattern=text)
        else:
            core["pattern"] = text
    yield core


@lru_cache(maxsize=128)
def _written(pattern: str, target: Target) -> str | None:
    """The core's pattern of a format."""
    return write_pattern(read_pattern(f"^(?:{pattern})$", "format", ""), target)


def _format(name: str | None, short: bool) -> tuple[list[str], int | None]:
    """The patterns of a format, all of which hold, and how long a string of it may be."""
    if name is None or name not in FORMATS:
        return [], None
    if short and name in SHORT_FORMATS:
        return [SHORT_FORMATS[name]], None
    return [table[name] for table in (FORMATS, FORMATS_ALSO) if name in table], FORMAT_LENGTHS.get(
        name
    )


def _has_type(value: Any, named: str | list[str] | None) -> bool:
    names = [named] if isinstance(named, str) else named
    return (
        names is None
        or json_type(value) in names
        or ("integer" in names and is_number(value) and value == int(value))
    )


def _check_exact(value: Any, keyword: str, path: str, only_doubles: bool = False) -> None:
    """Raises UnsupportedGuide for values that backends would take for others: they write no escapes
    but the short ones, and inside of lists and objects some count in doubles."""
    spend(1 + (len(value) // 16 if isinstance(value, str) else 0))
    if isinstance(value, str) and any(char < " " and char not in "\b\t\n\f\r" for char in value):
        raise refuse(keyword, path, f"the string {value!r} has a control character")
    if isinstance(value, (list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            _check_exact(item, keyword, path, True)
    elif only_doubles and is_number(value) and not isinstance(value, float) and abs(value) > 2**53:
        raise refuse(
            keyword, path, f"the number {value} is too large to be told from its neighbours"
        )


def _whole(value: float) -> float:
    return (
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
        else value
    )
