"""Owns the rewriting of what JSON Schema says of types, constants, numbers and strings into the core."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from specguide.guided.budget import spend
from specguide.guided.schema.core import Core, CoreSchema, read_pattern, refuse, write_pattern
from specguide.guided.schema.disjoint import json_type
from specguide.guided.schema.document import TYPES, Place
from specguide.guided.schema.formats import FORMATS
from specguide.guided.schema.shapes import is_number

if TYPE_CHECKING:
    from specguide.guided.schema.normalise import Lowering

NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
STRING = ("minLength", "maxLength", "pattern", "format")
ARRAY = ("prefixItems", "items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains",
         "maxContains", "unevaluatedItems")
OBJECT = ("properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
          "propertyNames", "unevaluatedProperties")
_APPLIED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_OF_TYPES = frozenset((*NUMBER, *STRING, *ARRAY, *OBJECT))


def allowed_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a subschema's own `type` allows; integers are numbers."""
    named = schema.get("type", TYPES)
    return frozenset("number" if name == "integer" else name for name in ([named] if isinstance(named, str) else named))


def lower_type(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    """The core of `type`, where the other keywords do not say it already."""
    others = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    if "const" in schema or "enum" in schema:
        return
    if not _APPLIED.isdisjoint(others) and _OF_TYPES.isdisjoint(others) and "integer" not in schema["type"] \
            and lowering.comparison.possible_types((others, place)) <= allowed_types(schema):
        return
    yield Core(place.path, type=schema["type"])


def lower_values(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    """The core of `const` and `enum`: the values that fit the type, if any."""
    values = [schema["const"]] if "const" in schema else schema["enum"]
    fitting = [value for value in values if _has_type(value, schema.get("type"))]
    keyword = "const" if "const" in schema else "enum"
    for value in fitting:
        _check_exact(value, keyword, place.path)
    yield Core(place.path, enum=fitting) if fitting else False
    if "const" in schema and "enum" in schema:
        yield from lower_values(lowering, {key: value for key, value in schema.items() if key != "const"}, place)


def lower_number(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    """The core of a subschema's number keywords; draft 4's boolean bounds become numbers."""
    core = Core(place.path)
    for keyword, exclusive, downwards in (("minimum", "exclusiveMinimum", False),
                                          ("maximum", "exclusiveMaximum", True)):
        bound = schema.get(keyword)
        if schema.get(exclusive) is True and bound is not None:  # draft 4
            keyword = exclusive
        elif is_number(schema.get(exclusive)):
            core[exclusive] = _representable(schema[exclusive], downwards)
        if bound is not None:
            core[keyword] = _representable(bound, downwards)
    if "multipleOf" in schema:
        core["multipleOf"] = _whole(schema["multipleOf"])
    yield core


def lower_string(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> Iterator[CoreSchema]:
    """The core of a subschema's string keywords; a format becomes a pattern."""
    core = Core(place.path, {keyword: int(schema[keyword]) for keyword in ("minLength", "maxLength")
                             if keyword in schema})
    patterns = [("pattern", schema["pattern"])] if "pattern" in schema else []
    if core and lowering.target.narrow:
        any_char = "[\\0-\\u{10FFFF}]"
        patterns.append(("maxLength", f"^{any_char}{{{core.pop('minLength', 0)},{core.pop('maxLength', '')}}}$"))
    if schema.get("format") in FORMATS:
        patterns.append(("format", f"^(?:{FORMATS[schema['format']]})$"))
    for keyword, pattern in patterns:
        text = write_pattern(read_pattern(pattern, keyword, place.path), lowering.target)
        if text is None:
            raise refuse(keyword, place.path, "no string that can be generated matches it")
        if "pattern" in core:
            yield Core(place.path, pattern=text)
        else:
            core["pattern"] = text
    yield core


def _has_type(value: Any, named: str | list[str] | None) -> bool:
    names = [named] if isinstance(named, str) else named
    return names is None or json_type(value) in names or (
        "integer" in names and is_number(value) and value == int(value))


def _check_exact(value: Any, keyword: str, path: str) -> None:
    """Raises UnsupportedGuide for values that backends would take for others: they count in doubles, and write no
    escapes but the short ones."""
    spend(1 + (len(value) // 16 if isinstance(value, str) else 0))
    if isinstance(value, str) and any(char < " " and char not in "\b\t\n\f\r" for char in value):
        raise refuse(keyword, path, f"the string {value!r} has a control character")
    if isinstance(value, (list, Mapping)):
        for item in value.values() if isinstance(value, Mapping) else value:
            _check_exact(item, keyword, path)
    elif is_number(value) and not (abs(value) <= 2**53 or (isinstance(value, float) and math.isfinite(value))):
        raise refuse(keyword, path, f"the number {value} is too large to be told from its neighbours")


def _representable(bound: float, downwards: bool) -> float:
    """The nearest double on the inner side of a bound."""
    if isinstance(bound, float) or abs(bound) <= 2**53:
        return _whole(bound)
    try:
        near = float(bound)
    except OverflowError:
        return math.copysign(1e300, bound)
    if int(near) != bound and (int(near) > bound) == downwards:
        near = math.nextafter(near, -math.inf if downwards else math.inf)
    return int(near) if abs(near) < 2**63 else near


def _whole(value: float) -> float:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53 else value
