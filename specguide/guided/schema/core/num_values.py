"""Owns a lower bound for the number of instances of a core schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from specguide.guided.budget import spend
from specguide.guided.regex.tree import UnsupportedRegex
from specguide.guided.schema.core.nodes import (
    Arrays,
    Core,
    Node,
    Numbers,
    Objects,
    Strings,
)
from specguide.guided.schema.core.patterns import num_matches
from specguide.guided.schema.json_values import TYPES, exact, value_key

MANY = 5_000
"""A count this high is treated as endless."""

_OPENERS = {'"': "string", "[": "array", "{": "object"}

Count = Callable[[Core], int]


def always_goes_on(core: Core) -> bool:
    """Whether any beginning of an instance can be continued to endlessly many instances."""
    if isinstance(core, bool):
        return not core
    strings = core.kinds.strings
    return (
        core == Node(core.path, core.kinds)
        and core.kinds.types == ("string",)
        and strings.max_length is None
        and strings.pattern is None
    )


def num_values(core: Core, definitions: Mapping[str, Core]) -> int:
    """Returns a lower bound for the number of instances, at most MANY."""
    plain = _of(core, definitions, frozenset(), reads_patterns=False)
    if plain >= MANY:
        return plain
    return _of(core, definitions, frozenset(), reads_patterns=True)


def endless_openers(core: Core, definitions: Mapping[str, Core]) -> str:
    """Returns the characters among `"[{` with which at least MANY instances begin."""
    return "".join(sorted(_openers(core, definitions, frozenset())))


def _openers(core: Core, definitions: Mapping[str, Core], behind: frozenset[str]) -> frozenset[str]:
    spend(4)
    if isinstance(core, bool):
        return frozenset(_OPENERS) if core else frozenset()
    count = partial(_of, definitions=definitions, behind=behind, reads_patterns=True)
    if core == Node(core.path, core.kinds):
        types = set(core.kinds.types or TYPES)
        return frozenset(
            opener
            for opener, name in _OPENERS.items()
            if name in types and _of_type(core, name, count, reads_patterns=True) >= MANY
        )
    if core.ref is not None and core == Node(core.path, ref=core.ref) and core.ref not in behind:
        return _openers(definitions[core.ref], definitions, behind | {core.ref})
    if core.any_of and core == Node(core.path, any_of=core.any_of):
        return frozenset().union(*(_openers(option, definitions, behind) for option in core.any_of))
    return frozenset()


def _of(
    core: Core, definitions: Mapping[str, Core], behind: frozenset[str], *, reads_patterns: bool
) -> int:
    """behind: references that led here; they count as 0. reads_patterns: False: a pattern counts as
    one value, which is fast"""
    spend(4)
    if isinstance(core, bool):
        return MANY if core else 0
    count = partial(_of, definitions=definitions, behind=behind, reads_patterns=reads_patterns)
    if core == Node(core.path, core.kinds):
        types = core.kinds.types or TYPES
        return _sum(_of_type(core, name, count, reads_patterns) for name in types)
    if core.ref is not None and core == Node(core.path, ref=core.ref):
        if core.ref in behind:
            return 0
        return count(definitions[core.ref], behind=behind | {core.ref})
    if core.values is not None and core == Node(core.path, values=core.values):
        return min(MANY, len(set(map(value_key, core.values))))
    if core.any_of and core == Node(core.path, any_of=core.any_of):
        return _most(map(count, core.any_of))
    return 1  # the parts of a conjunction are not compared


def _sum(counts: Iterable[int]) -> int:
    """The sum of the counts, at most MANY; it stops counting there."""
    total = 0
    for count in counts:
        total += count
        if total >= MANY:
            return MANY
    return total


def _most(counts: Iterable[int]) -> int:
    """The greatest count; it stops counting at MANY."""
    greatest = 0
    for count in counts:
        greatest = max(greatest, count)
        if greatest >= MANY:
            break
    return greatest


def _of_type(node: Node, name: str, count: Count, reads_patterns: bool) -> int:
    match name:
        case "string":
            return _num_strings(node.kinds.strings, reads_patterns)
        case "array":
            return _num_arrays(node.kinds.arrays, count)
        case "object":
            return _num_objects(node.kinds.objects, count)
        case "integer" | "number":
            return _num_numbers(node.kinds.numbers, is_whole=name == "integer")
    return 2 if name == "boolean" else 1


def _num_strings(strings: Strings, reads_patterns: bool) -> int:
    if strings.pattern is None:
        return MANY if strings.max_length != 0 else 1
    if not reads_patterns or strings.min_length is not None or strings.max_length is not None:
        return 1
    try:
        return num_matches(strings.pattern, MANY)
    except UnsupportedRegex:
        return 1


def _num_numbers(numbers: Numbers, *, is_whole: bool) -> int:
    lows = [bound for bound in (numbers.minimum, numbers.exclusive_minimum) if bound is not None]
    highs = [bound for bound in (numbers.maximum, numbers.exclusive_maximum) if bound is not None]
    if numbers.not_multiples:
        return 1
    if not lows or not highs:
        return MANY
    width = exact(min(highs)) - exact(max(lows))
    if not is_whole and numbers.multiple_of is None:
        return MANY if width > 0 else 1
    step = exact(numbers.multiple_of or 1)
    if is_whole:
        step = step * step.denominator
    return max(1, min(MANY, int(width / step) - 1))


def _num_arrays(arrays: Arrays, count: Count) -> int:
    num_items = 0 if arrays.prefix and arrays.is_distinct else count(arrays.rest)
    if arrays.max_items is None and num_items >= (MANY if arrays.is_distinct else 1):
        return MANY
    prefix = arrays.prefix[: arrays.max_items]
    return max(1, _most(map(count, prefix)))


def _num_objects(objects: Objects, count: Count) -> int:
    if objects.max_properties == 0:
        return 1
    is_open = objects.additional is not False and count(objects.additional) > 0
    if is_open and objects.max_properties is None:
        return MANY
    return max(1, _most(map(count, objects.properties.values())))
