"""Owns core schemas as JSON, as a backend is given them."""

from __future__ import annotations

import math

from specguide.errors import UnsupportedGuide
from specguide.guided.schema.json_values import Json


class Core(dict[str, Json]):
    """A subschema of the core; `path` is the JSON pointer of the original subschema that it comes
    from."""

    def __init__(self, path: str, *args: Json, **kwargs: Json) -> None:
        super().__init__(*args, **kwargs)
        self.path = path


def in_doubles(core: Json) -> Json:
    """A core schema whose bounds of numbers are doubles, each the nearest one on the inner side of
    a bound.

    Raises UnsupportedGuide where it lists a number that is none.
    """
    if isinstance(core, list):
        return [in_doubles(item) for item in core]
    if not isinstance(core, dict):
        return core
    for value in core.get("enum", ()):
        if _is_whole(value) and abs(value) > 2**53:
            raise UnsupportedGuide(
                f"the number {value} in an enum is too large to be told from its neighbours",
                keyword="enum",
            )
    return {
        keyword: _inner(value, upper=keyword in _UPPER)
        if keyword in _BOUNDS and _is_whole(value)
        else value
        if keyword == "enum"
        else in_doubles(value)
        for keyword, value in core.items()
    }


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _inner(bound: int, upper: bool) -> float:
    if abs(bound) <= 2**53:
        return bound
    try:
        near = float(bound)
    except OverflowError:
        return math.copysign(1e300, bound)
    if int(near) != bound and (int(near) > bound) == upper:
        near = math.nextafter(near, -math.inf if upper else math.inf)
    return int(near) if abs(near) < 2**63 else near


_UPPER = frozenset({"maximum", "exclusiveMaximum"})
_BOUNDS = _UPPER | {"minimum", "exclusiveMinimum"}
