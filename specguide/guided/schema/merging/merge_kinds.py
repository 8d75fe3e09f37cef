"""Owns the merging of a conjunction of core nodes, for one type of value at a time.

Each function returns the merged constraints of the atoms, or None where no value of the type meets
them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias, TypeVar

from specguide.errors import UnsupportedGuide
from specguide.guided.regex.tree import UnsupportedRegex
from specguide.guided.schema.core.nodes import (
    NO_OBJECTS,
    Arrays,
    Core,
    Kinds,
    Node,
    Numbers,
    Objects,
    Strings,
    refuse,
)
from specguide.guided.schema.core.number_bounds import holds_number
from specguide.guided.schema.core.patterns import (
    few_names,
    have_common_text,
    num_matches,
)
from specguide.guided.schema.json_values import Number, exact
from specguide.guided.schema.merging.merge_members import Conjoin, Members
from specguide.guided.schema.merging.pattern_sets import Cell, Patterns, joined_pattern

Atom: TypeAlias = Node
"""A node that is only a choice, or only has kinds and values."""

_Count = TypeVar("_Count", int, Number)
_MAX_BITS = 2100  # of a numerator: the largest double's bits plus the smallest one's


def merge_numbers(atoms: list[Atom], types: frozenset[str], path: str) -> Numbers | None:
    """Returns the tightest bounds and the least common multiple. Raises UnsupportedGuide where JSON
    cannot write that multiple."""
    numbers = [atom.kinds.numbers for atom in atoms]
    is_fraction = any(one.is_fraction for one in numbers)
    if is_fraction and "number" not in types:
        return None
    merged = Numbers(
        minimum=_greatest(one.minimum for one in numbers),
        exclusive_minimum=_greatest(one.exclusive_minimum for one in numbers),
        maximum=_least(one.maximum for one in numbers),
        exclusive_maximum=_least(one.exclusive_maximum for one in numbers),
        multiple_of=_common_step([one.multiple_of for one in numbers], path),
        is_fraction=is_fraction,
        not_multiples=_not_multiples(numbers, is_fraction=is_fraction),
    )
    return merged if holds_number(merged, whole="number" not in types) else None


def _not_multiples(constraints: list[Numbers], *, is_fraction: bool) -> tuple[Number, ...]:
    """Excluded multiples, each once. With `is_fraction`, those of integers are excluded anyway."""
    steps = dict.fromkeys(step for numbers in constraints for step in numbers.not_multiples)
    return tuple(step for step in steps if not is_fraction or exact(step).denominator > 1)


def _greatest(values: Iterable[_Count | None]) -> _Count | None:
    return max((value for value in values if value is not None), default=None)


def _least(values: Iterable[_Count | None]) -> _Count | None:
    return min((value for value in values if value is not None), default=None)


def _common_step(steps: list[Number | None], path: str) -> Number | None:
    """The least common multiple of the steps; None for no steps. Raises UnsupportedGuide where JSON
    cannot write it."""
    given = {exact(step) for step in steps if step is not None}
    if not given:
        return None
    common = _least_common_multiple(given, path)
    step = common.numerator if common.denominator == 1 else float(common)
    if exact(step) != common:
        raise _unwritable(path)
    return step


def _least_common_multiple(steps: Iterable[Fraction], path: str) -> Fraction:
    """Raises UnsupportedGuide where the multiple is too large for JSON."""
    numerator, denominator = 1, 0
    for step in steps:
        numerator = math.lcm(numerator, step.numerator)
        denominator = math.gcd(denominator, step.denominator)
        if numerator.bit_length() > _MAX_BITS:
            raise _unwritable(path)
    return Fraction(numerator, denominator)


def _unwritable(path: str) -> UnsupportedGuide:
    why = "JSON cannot write the least common multiple of the steps; give one step"
    return refuse("multipleOf", path, why)


def merge_strings(
    patterns: Patterns, atoms: list[Atom], path: str
) -> tuple[Strings, tuple[Core, ...]] | None:
    """Returns the tightest lengths and the patterns' intersection. If that takes too many states,
    one pattern stays, and further nodes of the conjunction hold the others."""
    strings = [atom.kinds.strings for atom in atoms]
    least = _greatest(one.min_length for one in strings)
    most = _least(one.max_length for one in strings)
    texts = tuple(dict.fromkeys(one.pattern for one in strings if one.pattern is not None))
    if most is not None and (least or 0) > most:
        return None
    try:
        common = patterns.common(texts, least or 0, most)
    except UnsupportedRegex:
        has_text = patterns.is_loose or _have_common_text(texts, least or 0, most)
        if has_text is False:
            return None
        joined = joined_pattern(texts) if has_text else None
        if joined is not None:
            return Strings(least, most, joined), ()
        others = tuple(Node(path, Kinds(strings=Strings(pattern=text))) for text in texts[1:])
        return Strings(least, most, texts[0]), others
    if common is None:
        return None
    return Strings(least, most, common or None), ()


def _have_common_text(texts: tuple[str, ...], least: int, most: int | None) -> bool | None:
    """Whether some string matches all patterns; None where the search takes too long."""
    try:
        return have_common_text(texts, least, most)
    except UnsupportedRegex:
        return None


def merge_arrays(conjoin: Conjoin, atoms: list[Atom], path: str) -> Arrays | None:
    """Returns the tightest counts, and for each position the conjunction of its items."""
    arrays = [atom.kinds.arrays for atom in atoms]
    least = _greatest(one.min_items for one in arrays)
    most = _least(one.max_items for one in arrays)
    rest = conjoin((one.rest for one in arrays), path)
    num_places = max((len(one.prefix) for one in arrays), default=0)
    prefix = [conjoin((one.item(i) for one in arrays), path) for i in range(num_places)]
    if False in prefix:  # the array ends before this item
        prefix, rest = prefix[: prefix.index(False)], False
    fewest = least or 0
    if (most is not None and fewest > most) or (rest is False and fewest > len(prefix)):
        return None
    return Arrays(least, most, tuple(prefix), rest, any(one.is_distinct for one in arrays))


def merge_objects(
    members: Members, patterns: Patterns, atoms: list[Atom], path: str
) -> Objects | None:
    """Returns the conjunction of the objects' constraints. Patterns are cut into cells that overlap
    neither each other nor a name."""
    objects = [one.kinds.objects for one in atoms if one.kinds.objects is not NO_OBJECTS]
    required = tuple(dict.fromkeys(name for one in objects for name in one.required))
    properties = members.named(objects, required, path)
    if any(properties[name] is False for name in required):
        return None
    least = _greatest(one.min_properties for one in objects)
    most = _least(one.max_properties for one in objects)
    if most is not None and max(least or 0, len(required)) > most:
        return None
    additional = members.conjoin((one.additional for one in objects), path)
    is_open = additional is not False

    def of_cell(matched: frozenset[str]) -> Core:
        return members.conjoin(_conjuncts_of_cell(objects, matched), path)

    def may_come(matched: frozenset[str]) -> bool:
        return is_open or of_cell(matched) is not False

    cells = _cells(patterns, objects, list(properties), path, may_come)
    by_pattern = {text: of_cell(matched) for text, matched in cells}
    merged = Objects(properties, by_pattern, additional, required, least, most)
    return merged if is_open else _closed(merged)


def _closed(objects: Objects) -> Objects | None:
    """Objects with `additional` False, in which patterns of few names become properties; None where
    they have no instance."""
    properties = dict(objects.properties)
    patterns: dict[str, Core] = {
        text: child for text, child in objects.patterns.items() if child is not False
    }
    _write_out(patterns, properties)
    if not _enough_names(properties, patterns, objects.min_properties or 0):
        return None
    return replace(objects, properties=properties, patterns=patterns)


def _enough_names(properties: dict[str, Core], patterns: dict[str, Core], least: int) -> bool:
    """Whether an object of these properties alone can have `least` of them, as far as is known."""
    num_names = sum(child is not False for child in properties.values())
    try:
        for pattern in patterns:
            if num_names < least:
                num_names += num_matches(pattern, least)
    except UnsupportedRegex:
        return True
    return num_names >= least


def _write_out(patterns: dict[str, Core], properties: dict[str, Core]) -> None:
    """Turns patterns of few names into properties."""
    for text in list(patterns):
        names = few_names(text)
        if names is not None:
            properties.update(dict.fromkeys(names, patterns.pop(text)))


def _conjuncts_of_cell(objects: list[Objects], matched: frozenset[str]) -> list[Core]:
    """The subschemas of properties that match just these patterns. Named properties do not count,
    since cells leave out all names."""
    conjuncts: list[Core] = []
    for one in objects:
        own = [child for pattern, child in one.patterns.items() if pattern in matched]
        conjuncts += own or [one.additional]
    return conjuncts


def _cells(
    patterns: Patterns,
    objects: list[Objects],
    names: list[str],
    path: str,
    may_come: Callable[[frozenset[str]], bool],
) -> list[Cell]:
    """The patterns cut into cells that overlap neither each other nor a name; cells without
    properties are left out."""
    texts = list(dict.fromkeys(pattern for one in objects for pattern in one.patterns))
    try:
        return patterns.cells(texts, names, may_come)
    except UnsupportedRegex as error:
        if len(texts) == 1:
            return [(texts[0], frozenset(texts))]  # the backend may be able to compile it
        raise refuse("patternProperties", path, str(error)) from error
