"""Owns the merging of core schemas that hold at once, keyword by keyword, for one type of value at
a time.

Each merge takes atoms (see `conjunction`) and gives the keywords of one schema for them, or None
where no value of the type fits them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.regex.parse import UnsupportedRegex
from specguide.guided.schema.core import NO_INTEGER, Core, CoreSchema, refuse
from specguide.guided.schema.evaluate import MAX_NAMES, asked_of, exact, pattern_automaton
from specguide.guided.schema.patterns import Cell

if TYPE_CHECKING:
    from specguide.guided.schema.conjunction import Atom, Conjunctions

Merged = dict[str, Any] | None
_MAX_BITS = 2100  # of a numerator: those of the largest double times those of the smallest


def merge_numbers(_: Conjunctions, atoms: list[Atom], types: frozenset[str], path: str) -> Merged:
    """The tightest bounds, the least common multiple."""
    found = _tightest(
        atoms, lower=("minimum", "exclusiveMinimum"), upper=("maximum", "exclusiveMaximum")
    )
    steps = {exact(atom["multipleOf"]) for atom in atoms if "multipleOf" in atom}
    if steps:
        step = _least_common_multiple(steps, path)
        found["multipleOf"] = step.numerator if step.denominator == 1 else float(step)
        if exact(found["multipleOf"]) != step:
            raise _unwritable(path)
    if any("not" in atom for atom in atoms):
        if "number" not in types:
            return None
        found["not"] = NO_INTEGER
    return found if holds_number(found, whole="number" not in types) else None


def _least_common_multiple(steps: Iterable[Fraction], path: str) -> Fraction:
    """Raises UnsupportedGuide where it is too large for JSON."""
    numerator, denominator = 1, 0
    for step in steps:
        numerator = math.lcm(numerator, step.numerator)
        denominator = math.gcd(denominator, step.denominator)
        if numerator.bit_length() > _MAX_BITS:
            raise _unwritable(path)
    return Fraction(numerator, denominator)


def _unwritable(path: str) -> UnsupportedGuide:
    return refuse("multipleOf", path, "the least common multiple is no number that JSON can write")


def holds_number(found: Mapping[str, Any], whole: bool) -> bool:
    """Whether some number is within the bounds and a multiple of the step."""
    lows = [
        (exact(found[name]), name == "exclusiveMinimum")
        for name in ("minimum", "exclusiveMinimum")
        if name in found
    ]
    highs = [
        (exact(found[name]), name == "exclusiveMaximum")
        for name in ("maximum", "exclusiveMaximum")
        if name in found
    ]
    if not lows or not highs:
        return True
    (low, above), (high, below) = max(lows), min(highs, key=lambda bound: (bound[0], not bound[1]))
    step = exact(found["multipleOf"]) if "multipleOf" in found else None
    if whole:
        step = Fraction(1 if step is None else step.numerator)
    if step is None:
        return low < high or (low == high and not above and not below)
    first = math.floor(low / step) + 1 if above else math.ceil(low / step)
    last = math.ceil(high / step) - 1 if below else math.floor(high / step)
    return first <= last


def merge_strings(
    conjunctions: Conjunctions, atoms: list[Atom], types: frozenset[str], path: str
) -> Merged:
    """The tightest lengths, and one pattern where the patterns' automata are small; else they stay
    side by side."""
    found = _tightest(atoms, lower=("minLength",), upper=("maxLength",))
    patterns = list(dict.fromkeys(atom["pattern"] for atom in atoms if "pattern" in atom))
    least, most = found.get("minLength", 0), found.get("maxLength")
    if most is not None and least > most:
        return None
    try:
        common = conjunctions.patterns.common(tuple(patterns), least, most)
    except UnsupportedRegex:
        found["pattern"] = patterns[0]
        if len(patterns) > 1:
            found["allOf"] = [Core(path, pattern=pattern) for pattern in patterns[1:]]
        return found
    if common is None:
        return None
    return {**found, "pattern": common} if common else found


def merge_arrays(
    conjunctions: Conjunctions, atoms: list[Atom], types: frozenset[str], path: str
) -> Merged:
    """The tightest counts; at each place what all ask of it."""
    found = _tightest(atoms, lower=("minItems",), upper=("maxItems",))
    least, most = found.get("minItems", 0), found.get("maxItems", math.inf)
    rest = conjunctions.all((atom.get("items", True) for atom in atoms), path)
    prefix = [
        conjunctions.all((_asked_of_item(atom, i) for atom in atoms), path)
        for i in range(max((len(atom.get("prefixItems", ())) for atom in atoms), default=0))
    ]
    if False in prefix:  # the array ends before it
        prefix, rest = prefix[: prefix.index(False)], False
    if least > most or (rest is False and least > len(prefix)):
        return None
    if prefix:
        found["prefixItems"] = prefix
    if rest is not True:
        found["items"] = rest
    return found


def _asked_of_item(atom: Atom, i: int) -> CoreSchema:
    prefix = atom.get("prefixItems", ())
    return prefix[i] if i < len(prefix) else atom.get("items", True)


def merge_objects(
    conjunctions: Conjunctions, atoms: list[Atom], types: frozenset[str], path: str
) -> Merged:
    """Per name what all ask of it; the patterns cut so that no two of them, and none of the names,
    overlap."""
    found: dict[str, Any] = {}
    required = list(dict.fromkeys(name for atom in atoms for name in atom.get("required", ())))
    names = dict.fromkeys(name for atom in atoms for name in atom.get("properties", ()))
    spend(len(atoms) * (len(names) + len(required)) // 2)
    properties = {
        name: conjunctions.all((child for atom in atoms for child in asked_of(atom, name)), path)
        for name in names
    }
    if any(
        conjunctions.all((child for atom in atoms for child in asked_of(atom, name)), path) is False
        for name in required
    ):
        return None
    counts = _tightest(atoms, lower=("minProperties",), upper=("maxProperties",))
    if max(counts.get("minProperties", 0), len(required)) > counts.get("maxProperties", math.inf):
        return None
    additional = conjunctions.all((atom.get("additionalProperties", True) for atom in atoms), path)
    patterns = _patterns(conjunctions, atoms, list(properties), path, additional)
    if additional is False:
        _write_out(patterns, properties)
    if additional is False and not _enough_names(
        properties, patterns, counts.get("minProperties", 0)
    ):
        return None
    for keyword, value in (
        ("properties", properties),
        ("patternProperties", patterns),
        ("required", required),
    ):
        if value:
            found[keyword] = value
    if additional is not True:
        found["additionalProperties"] = additional
    return {**found, **counts}


def _enough_names(
    properties: dict[str, CoreSchema], patterns: dict[str, CoreSchema], least: int
) -> bool:
    """Whether an object of these properties alone can have `least` of them, as far as is plain."""
    num_names = sum(child is not False for child in properties.values())
    try:
        for pattern in patterns:
            if num_names < least:
                num_names += pattern_automaton(pattern).num_texts(least)
    except UnsupportedRegex:
        return True
    return num_names >= least


def _patterns(
    conjunctions: Conjunctions,
    atoms: list[Atom],
    names: list[str],
    path: str,
    additional: CoreSchema,
) -> dict[str, CoreSchema]:
    """What all ask of the properties that patterns match, under patterns that do not overlap."""
    patterns = list(
        dict.fromkeys(pattern for atom in atoms for pattern in atom.get("patternProperties", ()))
    )
    sides = [atom for atom in atoms if atom.keys() & {"patternProperties", "additionalProperties"}]
    found: dict[str, CoreSchema] = {}
    for text, matched in _cells(conjunctions, patterns, names, path):
        asked = (child for atom in sides for child in _asked_of_cell(atom, matched))
        schema = conjunctions.all(asked, path)
        if schema is not False or additional is not False:
            found[text] = schema
    return found


def _write_out(patterns: dict[str, CoreSchema], properties: dict[str, CoreSchema]) -> None:
    """Makes properties of the patterns that stand for a few names."""
    for text in list(patterns):
        try:
            found = pattern_automaton(text)
        except UnsupportedRegex:
            continue
        if found.num_texts(MAX_NAMES) <= MAX_NAMES:
            child = patterns.pop(text)
            properties.update((name, child) for name in found.texts())


def _asked_of_cell(atom: Atom, matched: frozenset[str]) -> list[CoreSchema]:
    """What an atom asks of unnamed properties that match just these patterns. Names that it knows
    are no matter: the cells leave out all names."""
    found = [
        child for pattern, child in atom.get("patternProperties", {}).items() if pattern in matched
    ]
    return found or [atom.get("additionalProperties", True)]


def _cells(
    conjunctions: Conjunctions, patterns: list[str], names: list[str], path: str
) -> list[Cell]:
    """The patterns cut into cells that do not overlap and match none of the names."""
    try:
        return conjunctions.patterns.cells(patterns, names)
    except UnsupportedRegex as error:
        if len(patterns) == 1:
            return [(patterns[0], frozenset(patterns))]  # the backend may know better
        raise refuse("patternProperties", path, str(error)) from error


def _tightest(atoms: list[Atom], lower: tuple[str, ...], upper: tuple[str, ...]) -> dict[str, Any]:
    """Of each keyword the value that asks for most."""
    found: dict[str, Any] = {}
    choices: tuple[tuple[tuple[str, ...], Callable[..., Any]], ...] = ((lower, max), (upper, min))
    for keywords, choose in choices:
        for keyword in keywords:
            values = [atom[keyword] for atom in atoms if keyword in atom]
            if values:
                found[keyword] = choose(values)
    return found
