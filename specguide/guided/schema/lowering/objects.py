"""Owns the lowering of object keywords."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from math import comb

from specguide.guided.budget import spend
from specguide.guided.regex.both import outermost, together
from specguide.guided.regex.charset import EVERYTHING
from specguide.guided.regex.nfa import text_matcher
from specguide.guided.regex.tree import ANY_TEXT, Both, Regex, UnsupportedRegex, literals
from specguide.guided.regex.writer import is_exact, restrict
from specguide.guided.schema.core.keywords import weight
from specguide.guided.schema.core.nodes import (
    Core,
    Kinds,
    Node,
    Objects,
    all_of,
    any_of,
    refuse,
)
from specguide.guided.schema.core.pattern_text import ALIKE, read_pattern, refusing, write_pattern
from specguide.guided.schema.core.patterns import few_names
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.lowering.lowering import Lowering
from specguide.guided.schema.lowering.names import lower_names, matched, names_alone
from specguide.guided.schema.lowering.scalars import other_types
from specguide.guided.schema.lowering.unevaluated import Way, asserted, ways_of_properties

_MAX_CHOICES = 64

Patterns = list[tuple[Regex, Core]]


def lower_object(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Iterator[Core]:
    """Yields the core of a subschema's object keywords."""
    properties = {
        name: lowering.lower(child, place / "properties" / name)
        for name, child in schema.get("properties", {}).items()
    }
    patterns = _patterns(lowering, schema, place, properties)
    evaluated = _ways(lowering, schema, place)
    if len(evaluated) == 1:
        _add_evaluated(evaluated[0], properties, patterns, place)
    additional = _additional(lowering, schema, place, evaluated)
    if "propertyNames" in schema and patterns:
        yield Node(place.path, all_of=(names_alone(lowering, schema, place),))
    elif "propertyNames" in schema:
        patterns, additional = lower_names(lowering, schema, place, properties, additional)
    if lowering.capabilities.has_open_objects:
        properties, patterns, additional = _without_any_name(
            properties, patterns, additional, place.path
        )
    written, additional = _patterns_and_rest(lowering, place, properties, patterns, additional)
    constraints = Objects(
        properties,
        written,
        additional,
        tuple(dict.fromkeys(schema.get("required", ()))),
    )
    counted, ways = _counts(lowering, schema, constraints, place.path)
    if ways is not None:
        yield ways
    yield Node(place.path, Kinds(objects=counted))
    if len(evaluated) > 1:
        others = lowering.lower(schema["unevaluatedProperties"], place / "unevaluatedProperties")
        yield any_of(place.path, [_one_way(lowering, way, others, place) for way in evaluated])


def _written(patterns: Patterns, lowering: Lowering, path: str) -> dict[str, Core]:
    """The patterns as texts; patterns with the same text become a conjunction."""
    texts: dict[str, Core] = {}
    for node, child in patterns:
        with refusing("patternProperties", path):
            text = write_pattern(node, lowering.capabilities.characters)
        if text is not None:
            texts[text] = all_of(path, [texts[text], child]) if text in texts else child
    return texts


def _patterns(
    lowering: Lowering, schema: Mapping[str, Json], place: Place, properties: dict[str, Core]
) -> Patterns:
    """The patterns. A property that only repeats the subschema of a pattern becomes True; a pattern
    of few names in a closed object becomes properties."""
    patterns = []
    is_closed = schema.get("additionalProperties") is False
    for pattern, child in schema.get("patternProperties", {}).items():
        node = read_pattern(pattern, "patternProperties", place.path)
        lowered = lowering.lower(child, place / "patternProperties" / pattern)
        names = _few_names(lowering, node, place) if is_closed else None
        if names is not None:
            for name in names:
                known = properties.get(name, True)
                spend(weight(known))
                both = lowered if known == lowered else all_of(place.path, [known, lowered])
                properties[name] = both
            continue
        patterns.append((node, lowered))
        for name in matched(node, properties, "patternProperties", place, lowering):
            spend(weight(properties[name]))
            if properties[name] == lowered:
                properties[name] = True
    return patterns


def _few_names(lowering: Lowering, node: Regex, place: Place) -> list[str] | None:
    """All names of a pattern; None for many, or where dialects differ."""
    if not is_exact(node):
        return None
    with refusing("patternProperties", place.path):
        text = write_pattern(node, lowering.capabilities.characters)
    return [] if text is None else few_names(text)


def _without_any_name(
    properties: dict[str, Core], patterns: Patterns, additional: Core, path: str
) -> tuple[dict[str, Core], Patterns, Core]:
    """Returns the parts without patterns that match any name: their subschemas constrain all
    properties and replace `additional`."""
    of_all = [child for node, child in patterns if node == ANY_TEXT]
    if not of_all:
        return properties, patterns, additional
    named = {name: all_of(path, [child, *of_all]) for name, child in properties.items()}
    others = [
        (node, all_of(path, [child, *of_all])) for node, child in patterns if node != ANY_TEXT
    ]
    return named, others, all_of(path, of_all)


def _ways(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> list[Way]:
    """The ways in which properties are evaluated beside `unevaluatedProperties`; [] without it."""
    if "additionalProperties" in schema or schema.get("unevaluatedProperties", True) is True:
        return []
    return ways_of_properties(lowering.document, schema, place)


def _add_evaluated(way: Way, properties: dict[str, Core], patterns: Patterns, place: Place) -> None:
    """Adds the properties and patterns that a way evaluates, with no constraint."""
    for name in way.evaluated.names:
        properties.setdefault(name, True)
    for pattern in way.evaluated.patterns:
        patterns.append((read_pattern(pattern, "patternProperties", place.path), True))


def _additional(
    lowering: Lowering, schema: Mapping[str, Json], place: Place, ways: list[Way]
) -> Core:
    """The subschema of the properties that no other keyword names."""
    if "additionalProperties" in schema:
        return lowering.lower(schema["additionalProperties"], place / "additionalProperties")
    if len(ways) == 1 and not ways[0].evaluated.is_all:
        return lowering.lower(schema["unevaluatedProperties"], place / "unevaluatedProperties")
    is_open = "properties" not in schema and "patternProperties" not in schema
    return is_open or bool(ways) or lowering.capabilities.has_open_objects


def _one_way(lowering: Lowering, way: Way, others: Core, place: Place) -> Core:
    """The instances of one way; for types other than objects, all its values."""
    parts = asserted(lowering, way)
    if not way.evaluated.is_all:
        properties: dict[str, Core] = {}
        patterns: Patterns = []
        _add_evaluated(way, properties, patterns, place)
        written, others = _patterns_and_rest(lowering, place, properties, patterns, others)
        constraints = Objects(properties, written, others)
        parts.append(Node(place.path, Kinds(objects=constraints)))
    return all_of(place.path, parts)


def _patterns_and_rest(
    lowering: Lowering,
    place: Place,
    properties: Mapping[str, Core],
    patterns: Patterns,
    additional: Core,
) -> tuple[dict[str, Core], Core]:
    """The patterns as texts, and `additional`. Where dialects differ on the names of a pattern, all
    that they ask holds at once: a name has the subschemas of the patterns that match it in some
    dialect, and `additional` where none matches it in every dialect."""
    if all(is_exact(node) for node, _ in patterns):
        return _written(patterns, lowering, place.path), additional
    is_open = lowering.capabilities.has_open_objects and additional is not False
    widest = [(outermost(node), child) for node, child in patterns]
    if is_open and additional is True:
        return _written(widest, lowering, place.path), True
    # No other subschema applies to the names of an only pattern: those in doubt are left out.
    with refusing("patternProperties", place.path):
        is_alone = len(patterns) == 1 and not _in_doubt(patterns[0][0], properties)
    if is_alone and not is_open:
        return _written(patterns, lowering, place.path), False
    taken = [node if is_alone else restrict(node, EVERYTHING) for node, _ in patterns]
    taken += [literals(properties)] if properties else []
    with suppress(UnsupportedRegex):
        others = together([ANY_TEXT], taken, is_exact=True)
        if not isinstance(others, Both):
            known = patterns if is_alone else widest
            return _written([*known, (others, additional)], lowering, place.path), False
    if is_alone:
        return _written(patterns, lowering, place.path), False
    why = f"engines disagree on the properties that each pattern matches; {ALIKE}"
    raise refuse("patternProperties", place.path, why)


def _in_doubt(node: Regex, names: Iterable[str]) -> bool:
    """Whether some dialect matches one of the names and another does not."""
    sure, widest = text_matcher(node), text_matcher(outermost(node))
    return any(widest.matches(name) and not sure.matches(name) for name in names)


def _counts(
    lowering: Lowering, schema: Mapping[str, Json], objects: Objects, path: str
) -> tuple[Objects, Core | None]:
    """`minProperties` and `maxProperties`, unless other keywords imply them; and a choice of
    properties that replaces `minProperties`, or None."""
    optional = [
        name
        for name, child in objects.properties.items()
        if name not in objects.required and child is not False
    ]
    closed = objects.is_closed
    least, most = int(schema.get("minProperties", 0)), schema.get("maxProperties")
    if most is not None and not (closed and len(optional) + len(objects.required) <= most):
        objects = replace(objects, max_properties=int(most))
    missing = least - len(objects.required)
    too_few_named = closed and missing > len(optional)
    if most is not None and most < max(least, len(objects.required)):
        return objects, other_types(schema, "object", path)
    if missing <= 0:
        return objects, None
    others_left_out = schema.get("additionalProperties", True) is not False and closed
    if others_left_out and too_few_named and not lowering.capabilities.has_open_objects:
        why = "the backend allows only named properties here, and they are too few; name more"
        raise refuse("minProperties", path, why)
    if too_few_named:
        return objects, other_types(schema, "object", path)
    is_left = lowering.capabilities.leaves_counts and not closed and missing > 1
    if lowering.capabilities.counts_keys or is_left:
        return replace(objects, min_properties=least), None
    if not optional or (closed and missing == 1):
        return replace(objects, min_properties=least), None
    return objects, any_of(path, _enough(objects, path, optional, missing, closed))


def _enough(
    objects: Objects, path: str, optional: list[str], missing: int, closed: bool
) -> Iterator[Core]:
    """Ways to have `missing` of the optional properties, or one fewer and an unnamed one."""
    why_not = _why_not_enough(len(optional), missing, closed)
    if why_not is not None:
        raise refuse("minProperties", path, why_not)
    spend(4 * _MAX_CHOICES + 4 * len(optional))
    for names in combinations(optional, missing):
        yield Node(path, Kinds(objects=Objects(required=names)))
    for names in () if closed else combinations(optional, missing - 1):
        constraints = Objects(
            properties={name: False for name in optional if name not in names},
            required=(*objects.required, *names),
            min_properties=len(objects.required) + missing,
        )
        yield Node(path, Kinds(objects=constraints))


def _why_not_enough(num_optional: int, missing: int, closed: bool) -> str | None:
    if not closed and missing > num_optional + 1:
        return (
            "properties that are not named may repeat, and each time they are counted; name more "
            "of them"
        )
    fewer = 0 if closed else comb(num_optional, missing - 1)
    if comb(num_optional, missing) + fewer > _MAX_CHOICES:
        return "too many choices of properties would meet it; require some of them"
    return None


def lower_dependencies(
    lowering: Lowering, schema: Mapping[str, Json], place: Place
) -> Iterator[Core]:
    """Yields the core of `dependentRequired`, `dependentSchemas`, `dependencies`: the property is
    absent, or what depends on it holds."""
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        for name, dependent in schema.get(keyword, {}).items():
            here = place / keyword / name
            absent = Node(here.path, Kinds(objects=Objects(properties={name: False})))
            yield any_of(here.path, [absent, _met(lowering, name, dependent, here)])


def _met(lowering: Lowering, name: str, dependent: Json, here: Place) -> Core:
    """The property is present, and what depends on it holds."""
    if isinstance(dependent, list):
        names = tuple(dict.fromkeys([name, *dependent]))
        return Node(here.path, Kinds(objects=Objects(required=names)))
    lowered = lowering.lower(dependent, here)
    if lowered is False:
        return False
    also = () if lowered is True else (lowered,)
    return Node(here.path, Kinds(objects=Objects(required=(name,))), all_of=also)
