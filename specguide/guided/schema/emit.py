"""Owns the last pass: a core schema as the JSON that a library is given."""

from __future__ import annotations

import math
from collections.abc import Mapping

from specguide.errors import UnsupportedGuide
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.keywords import UNIQUE_ITEMS, Value, keywords
from specguide.guided.schema.nodes import CoreSchema, Node
from specguide.guided.schema.subschemas import with_subschemas
from specguide.inputs.integers import is_int


def emit(schema: CoreSchema) -> dict[str, Json]:
    """The JSON of a core schema, with its definitions under `$defs`."""
    written = _written(schema.root)
    root: dict[str, Json] = {} if isinstance(written, bool) else written
    if schema.definitions:
        root["$defs"] = {name: _written(core) for name, core in schema.definitions.items()}
    return root


def _written(value: Value) -> Json:
    if isinstance(value, Node):
        return {
            keyword: _written(one)
            for keyword, one in keywords(value).items()
            if keyword != UNIQUE_ITEMS
        }
    if isinstance(value, (tuple, list)):
        return [_written(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _written(item) for name, item in value.items()}
    return value


def in_doubles(core: Json) -> Json:
    """A schema's JSON whose bounds of numbers are doubles, each the nearest one on the inner side
    of a bound.

    Raises UnsupportedGuide where it lists a number that is none, or has a bound that all doubles
    are outside of.
    """
    if not isinstance(core, dict):
        return core
    listed = core.get("enum")
    for value in listed if isinstance(listed, list) else ():  # else the compile refuses it
        if is_int(value) and abs(value) > 2**53:
            raise UnsupportedGuide(
                f"the number {value} in an enum is too large to be told from its neighbours",
                keyword="enum",
            )
    return {
        keyword: _inner(keyword, value) if keyword in _BOUNDS and is_int(value) else value
        for keyword, value in with_subschemas(core, in_doubles).items()
    }


def _inner(keyword: str, bound: int) -> float:
    upper = keyword in _UPPER
    if abs(bound) <= 2**53:
        return bound
    try:
        near = float(bound)
    except OverflowError:
        if (bound > 0) != upper:
            raise UnsupportedGuide(
                f"{keyword} is an integer beyond all doubles, and none is within it",
                keyword=keyword,
            ) from None
        return 1e300 if upper else -1e300
    if int(near) != bound and (int(near) > bound) == upper:
        near = math.nextafter(near, -math.inf if upper else math.inf)
    return int(near) if abs(near) < 2**63 else near


_UPPER = frozenset({"maximum", "exclusiveMaximum"})
_BOUNDS = _UPPER | {"minimum", "exclusiveMinimum"}
