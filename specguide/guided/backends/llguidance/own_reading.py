"""Owns the adaptation of schemas that llguidance reads by itself, so that it misreads nothing in
them."""

from __future__ import annotations

import math

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.subschemas import with_subschemas
from specguide.inputs.integers import is_int

_WITHOUT_ESCAPE = frozenset(map(chr, (*range(0x20), 0x7F))) - frozenset("\b\t\n\f\r")
_UPPER = frozenset({"maximum", "exclusiveMaximum"})
_BOUNDS = _UPPER | {"minimum", "exclusiveMinimum"}


def as_llguidance_reads(core: Json) -> Json:
    """A schema's JSON in which the bounds of numbers are doubles: each bound becomes the nearest
    double inside it.

    Raises UnsupportedGuide where the schema lists a number that is not a double, has a bound with
    no double inside it, or names a text with a character that has no short escape, which the
    library would leave out.
    """
    if not isinstance(core, dict):
        return core
    listed = core.get("enum")
    if isinstance(listed, list):  # else the compile refuses it
        _check_values(listed, "enum")
    if "const" in core:
        _check_values([core["const"]], "const")
    if isinstance(core.get("properties"), dict):
        _check_values([*core["properties"]], "properties")
    return {
        keyword: _inner(keyword, value) if keyword in _BOUNDS and is_int(value) else value
        for keyword, value in with_subschemas(core, as_llguidance_reads).items()
    }


def _check_values(values: list[Json], keyword: str) -> None:
    for value in values:
        spend()
        if is_int(value) and abs(value) > 2**53:
            why = "is beyond 2^53, where llguidance rounds; list it as a string"
            raise UnsupportedGuide(f"the integer {value} in {keyword} {why}", keyword=keyword)
        if isinstance(value, str) and any(char in _WITHOUT_ESCAPE for char in value):
            why = "has a control character that needs an escape of four digits; leave it out"
            raise UnsupportedGuide(f"the text {value!r} in {keyword} {why}", keyword=keyword)
        if isinstance(value, dict):
            _check_values([*value, *value.values()], keyword)
        elif isinstance(value, list):
            _check_values(value, keyword)


def _inner(keyword: str, bound: int) -> float:
    upper = keyword in _UPPER
    if abs(bound) <= 2**53:
        return bound
    try:
        near = float(bound)
    except OverflowError:
        if (bound > 0) != upper:
            raise UnsupportedGuide(
                f"{keyword} is beyond all doubles, and none is within it; give it fewer digits",
                keyword=keyword,
            ) from None
        return 1e300 if upper else -1e300
    if int(near) != bound and (int(near) > bound) == upper:
        near = math.nextafter(near, -math.inf if upper else math.inf)
    return int(near) if abs(near) < 2**63 else near
