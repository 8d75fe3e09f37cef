"""Owns the rewriting of what JSON Schema says of arrays and objects into the core."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

from specguide.guided.budget import at_work, spend
from specguide.guided.regex.charset import EVERYTHING, CharSet
from specguide.guided.regex.nfa import TextMatcher
from specguide.guided.regex.parse import (
    NOTHING,
    Chars,
    Either,
    Node,
    Repeat,
    UnsupportedRegex,
    literals,
)
from specguide.guided.regex.writer import is_exact, restrict
from specguide.guided.schema.core import (
    Core,
    CoreSchema,
    any_of,
    read_pattern,
    refuse,
    weight,
    write_pattern,
)
from specguide.guided.schema.disjoint import value_key
from specguide.guided.schema.document import TYPES, Place

if TYPE_CHECKING:
    from specguide.guided.schema.normalise import Lowering

_BEYOND_NAMES = frozenset({"$ref", "allOf", "anyOf", "enum", "pattern"})
_ANY_NAME = Repeat(Chars(CharSet(EVERYTHING, EVERYTHING)), 0, None)
_MAX_CONTAINS = 64
_MAX_CHOICES = 64
_MAX_DISTINCT = 8


def lower_array(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """The core of a subschema's array keywords. `contains` is met by the array's first items."""
    core = Core(
        place.path,
        {
            keyword: int(schema[keyword])
            for keyword in ("minItems", "maxItems")
            if keyword in schema
        },
    )
    prefix, rest = _items(lowering, schema, place)
    if prefix:
        core["prefixItems"] = prefix
    if rest is not True:
        core["items"] = rest
    if schema.get("uniqueItems") and not _holds_one_item(core):
        with at_work("uniqueItems", place.path):
            yield any_of(place.path, _distinct(lowering, schema, core))
    yield core
    if "contains" in schema:
        yield Core(place.path, allOf=[_contains(lowering, schema, place)])


def _items(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> tuple[list[CoreSchema], CoreSchema]:
    """What the first items and what the others must be."""
    items = schema.get("items", True)
    if isinstance(items, list):  # up to 2019-09; later drafts have no other reading of it
        prefix, rest, keyword = items, schema.get("additionalItems", True), "additionalItems"
        step = "items"
    else:
        prefix = schema.get("prefixItems", []) if lowering.document.draft >= 2020 else []
        rest, keyword, step = items, "items", "prefixItems"
    if keyword not in schema and "unevaluatedItems" in schema:
        beside = sorted(schema.keys() & {"$ref", "allOf", "anyOf", "contains", "if", "oneOf"})
        if beside:
            raise refuse(
                "unevaluatedItems", place.path, f"which items it speaks of hangs on {beside[0]}"
            )
        rest, keyword = schema["unevaluatedItems"], "unevaluatedItems"
    lowered = [lowering.lower(child, place / step / i) for i, child in enumerate(prefix)]
    return lowered, lowering.lower(rest, place / keyword)


def _distinct(lowering: Lowering, schema: Mapping[str, Any], core: Core) -> Iterator[CoreSchema]:
    """The arrays of distinct items, which come in the order in which an enum lists them."""
    values = _few_values(lowering, schema, core)
    least, most = core.get("minItems", 0), core.get("maxItems", len(values))
    for num_items in range(least, min(most, len(values)) + 1):
        for chosen in combinations(values, num_items):
            spend(4 + 4 * num_items)
            yield Core(
                core.path,
                type="array",
                minItems=num_items,
                maxItems=num_items,
                prefixItems=[Core(core.path, enum=[value]) for value in chosen],
            )
    yield Core(core.path, type=[name for name in TYPES if name != "array"])


def _few_values(lowering: Lowering, schema: Mapping[str, Any], core: Core) -> list[Any]:
    """The values that an item may have. Raises UnsupportedGuide where they are not listed, or too
    many."""
    items, asked, place = (
        core.get("items", True),
        schema.get("items"),
        Place(core.path, "") / "items",
    )
    while isinstance(asked, Mapping) and asked.keys() == {"$ref"}:
        asked, place = lowering.document.resolve(asked["$ref"], place)
        items = (
            lowering.lower(asked, place) if isinstance(asked, Mapping) and "enum" in asked else True
        )
    values = _listed(items)
    if "prefixItems" in core or not values:
        raise refuse(
            "uniqueItems",
            core.path,
            "a grammar cannot compare an array's items; bound it by maxItems: 1, "
            "list them in an enum, or leave uniqueItems out",
        )
    distinct: dict[Hashable, Any] = {}
    for value in values:
        distinct.setdefault(value_key(value), value)
    if len(distinct) > _MAX_DISTINCT:
        raise refuse(
            "uniqueItems",
            core.path,
            f"more than {_MAX_DISTINCT} items to choose from are too many choices",
        )
    return list(distinct.values())


def _holds_one_item(core: Core) -> bool:
    closed_after = len(core.get("prefixItems", ())) if core.get("items") is False else 2
    return min(core.get("maxItems", 2), closed_after) <= 1


def _contains(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> CoreSchema:
    least, most = int(schema.get("minContains", 1)), schema.get("maxContains")
    if least > _MAX_CONTAINS:
        raise refuse("minContains", place.path, f"it is above {_MAX_CONTAINS}")
    if most is not None and most < least:
        return Core(place.path, type=[name for name in TYPES if name != "array"])
    item = lowering.lower(schema["contains"], place / "contains")
    spend(least * weight(item))
    core = (
        Core(place.path, prefixItems=[item] * least, minItems=least) if least else Core(place.path)
    )
    if most is not None:
        core["items"] = lowering.negate(schema["contains"], place / "contains")
    return core


def lower_object(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """The core of a subschema's object keywords."""
    properties = {
        name: lowering.lower(child, place / "properties" / name)
        for name, child in schema.get("properties", {}).items()
    }
    patterns = _patterns(lowering, schema, place, properties)
    additional = _additional(lowering, schema, place, properties)
    if "propertyNames" in schema and patterns:
        yield Core(place.path, allOf=[_names_alone(lowering, schema, place)])
    elif "propertyNames" in schema:
        patterns, additional = _names(lowering, schema, place, properties, additional)
    if additional is not False:
        additional = _told_apart(schema, place, properties, patterns, additional)
    core = Core(place.path)
    if properties:
        core["properties"] = properties
    if patterns:
        core["patternProperties"] = {
            write_pattern(node, lowering.target): child
            for node, child in patterns
            if write_pattern(node, lowering.target) is not None
        }
    if additional is not True:
        core["additionalProperties"] = additional
    if schema.get("required"):
        core["required"] = list(dict.fromkeys(schema["required"]))
    yield from _counts(schema, core)
    yield core


def _patterns(
    lowering: Lowering, schema: Mapping[str, Any], place: Place, properties: dict[str, CoreSchema]
) -> list[tuple[Node, CoreSchema]]:
    """The patterns; takes out of `properties` what one of them says again."""
    patterns = []
    for pattern, child in schema.get("patternProperties", {}).items():
        node = read_pattern(pattern, "patternProperties", place.path)
        lowered = lowering.lower(child, place / "patternProperties" / pattern)
        patterns.append((node, lowered))
        for name in _matched(
            restrict(node, lowering.target.characters), properties, "patternProperties", place
        ):
            spend(weight(properties[name]))
            if properties[name] == lowered:
                properties[name] = True
    return patterns


def _matched(node: Node, names: Iterable[str], keyword: str, place: Place) -> list[str]:
    """The names that a tree without anchors matches."""
    matcher = TextMatcher(node)
    try:
        return [name for name in names if matcher.matches(name)]
    except UnsupportedRegex as error:
        raise refuse(keyword, place.path, str(error)) from error


def _additional(
    lowering: Lowering, schema: Mapping[str, Any], place: Place, properties: dict[str, CoreSchema]
) -> CoreSchema:
    """What properties must be that are named nowhere; adds to `properties` what
    `unevaluatedProperties` lets pass."""
    if "additionalProperties" in schema:
        return lowering.lower(schema["additionalProperties"], place / "additionalProperties")
    if "unevaluatedProperties" in schema:
        for name in _evaluated(lowering, schema, place, 0):
            properties.setdefault(name, True)
        return lowering.lower(schema["unevaluatedProperties"], place / "unevaluatedProperties")
    return not (
        lowering.target.narrow and ("properties" in schema or "patternProperties" in schema)
    )


def _evaluated(lowering: Lowering, schema: Any, place: Place, depth: int) -> Iterator[str]:
    """Names of properties that `$ref` and `allOf` beside `unevaluatedProperties` speak of."""
    if not isinstance(schema, Mapping) or depth > 8:
        return
    place = lowering.document.enter(schema, place)
    varying = sorted(
        schema.keys()
        & {"anyOf", "oneOf", "if", "dependentSchemas", "patternProperties", "$dynamicRef"}
    )
    if varying:
        raise refuse(
            "unevaluatedProperties",
            place.path,
            f"which properties it speaks of hangs on {varying[0]}",
        )
    yield from schema.get("properties", {})
    if "$ref" in schema:
        yield from _evaluated(
            lowering, *lowering.document.resolve(schema["$ref"], place), depth + 1
        )
    for i, child in enumerate(schema.get("allOf", ())):
        yield from _evaluated(lowering, child, place / "allOf" / i, depth + 1)


def _told_apart(
    schema: Mapping[str, Any],
    place: Place,
    properties: Mapping[str, CoreSchema],
    patterns: list[tuple[Node, CoreSchema]],
    additional: CoreSchema,
) -> CoreSchema:
    """`additional`, or False where engines may disagree on which names a pattern takes."""
    if all(is_exact(node, EVERYTHING) for node, _ in patterns):
        return additional
    if not all(name.isascii() and name.isprintable() for name in properties):
        raise refuse(
            "patternProperties",
            place.path,
            "engines disagree on which of the properties it matches",
        )
    return False


def _names(
    lowering: Lowering,
    schema: Mapping[str, Any],
    place: Place,
    properties: dict[str, CoreSchema],
    additional: CoreSchema,
) -> tuple[list[tuple[Node, CoreSchema]], CoreSchema]:
    """The patterns and the additional schema under `propertyNames`; rules out forbidden names in
    `properties`."""
    core = _lowered_names(lowering, schema, place)
    if core is True:
        return [], additional
    node = _name_node(core, place / "propertyNames")
    allowed = set(_matched(node, properties, "propertyNames", place))
    for name in properties.keys() - allowed:
        properties[name] = False
    names = [name for name in _listed(core) if isinstance(name, str)]
    for name in names:
        properties.setdefault(name, additional)
    return ([] if additional is False or names else [(node, additional)]), False


def _names_alone(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> CoreSchema:
    """The core of `propertyNames` by itself."""
    core = _lowered_names(lowering, schema, place)
    if core is True:
        return True
    pattern = write_pattern(_name_node(core, place / "propertyNames"), lowering.target)
    allowed = {} if pattern is None else {"patternProperties": {pattern: True}}
    return Core(place.path, {**allowed, "additionalProperties": False})


def _lowered_names(lowering: Lowering, schema: Mapping[str, Any], place: Place) -> CoreSchema:
    asked, found = schema["propertyNames"], place / "propertyNames"
    while isinstance(asked, Mapping) and asked.keys() == {"$ref"}:
        asked, found = lowering.document.resolve(asked["$ref"], found)
    return lowering.lower(asked, found)


def _listed(core: CoreSchema) -> list[Any]:
    """The values of an enum that is all there is to a schema."""
    return core["enum"] if isinstance(core, Core) and core.keys() == {"enum"} else []


def _name_node(core: CoreSchema, place: Place) -> Node:
    """The strings that fit a core schema."""
    if isinstance(core, bool):
        return _ANY_NAME if core else NOTHING
    named = core.get("type", "string")
    if "string" not in ([named] if isinstance(named, str) else named):
        return NOTHING
    if core.keys() == {"enum"}:
        return literals([name for name in core["enum"] if isinstance(name, str)])
    if core.keys() <= {"type", "anyOf"} and "anyOf" in core:
        return Either(tuple(_name_node(option, place) for option in core["anyOf"]))
    if core.keys() <= {"type", "pattern"} and "pattern" in core:
        return read_pattern(core["pattern"], "propertyNames", place.path)
    if core.keys().isdisjoint(_BEYOND_NAMES):
        return Repeat(
            Chars(CharSet(EVERYTHING, EVERYTHING)), core.get("minLength", 0), core.get("maxLength")
        )
    raise refuse(
        "propertyNames",
        place.path,
        "only enum, pattern, bounds of length and choices of them have a grammar",
    )


def _counts(schema: Mapping[str, Any], core: Core) -> Iterator[CoreSchema]:
    """Puts `minProperties` and `maxProperties` into `core` as far as they say more than its other
    keywords."""
    required, properties = core.get("required", []), core.get("properties", {})
    optional = [
        name for name, child in properties.items() if name not in required and child is not False
    ]
    closed = core.get("additionalProperties") is False and not core.get("patternProperties")
    least, most = int(schema.get("minProperties", 0)), schema.get("maxProperties")
    if most is not None and not (closed and len(optional) + len(required) <= most):
        core["maxProperties"] = int(most)
    missing = least - len(required)
    if missing <= 0:
        return
    if not optional or (closed and missing == 1):
        core["minProperties"] = least
        return
    yield any_of(core.path, _enough(core, optional, missing, closed))


def _enough(core: Core, optional: list[str], missing: int, closed: bool) -> Iterator[CoreSchema]:
    """Ways to have `missing` of the optional properties, or one less and one that is not named."""
    if not closed and missing > len(optional) + 1:
        raise refuse(
            "minProperties",
            core.path,
            "properties that are not named may repeat, and each time they are "
            "counted; name more of them",
        )
    if (
        comb(len(optional), missing) + (0 if closed else comb(len(optional), missing - 1))
        > _MAX_CHOICES
    ):
        raise refuse(
            "minProperties",
            core.path,
            "too many choices of properties would meet it; require some of them",
        )
    spend(4 * _MAX_CHOICES + 4 * len(optional))
    for names in combinations(optional, missing):
        yield Core(core.path, required=list(names))
    for names in () if closed else combinations(optional, missing - 1):
        others = {name: False for name in optional if name not in names}
        yield Core(
            core.path,
            properties=others,
            required=[*core.get("required", ()), *names],
            minProperties=len(core.get("required", ())) + missing,
        )


def lower_dependencies(
    lowering: Lowering, schema: Mapping[str, Any], place: Place
) -> Iterator[CoreSchema]:
    """The core of `dependentRequired`, `dependentSchemas` and `dependencies`: the property is
    absent, or else."""
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, asked in schema.get(keyword, {}).items():
            here = place / keyword / name
            if isinstance(asked, list):
                met: CoreSchema = Core(here.path, required=list(dict.fromkeys([name, *asked])))
            else:
                lowered = lowering.lower(asked, here)
                met = lowered and Core(
                    here.path, required=[name], **({} if lowered is True else {"allOf": [lowered]})
                )
            yield any_of(here.path, [Core(here.path, properties={name: False}), met])
