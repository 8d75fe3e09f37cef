"""Owns the last pass: a core schema as the JSON that a library reads."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.schema.core.keywords import UNIQUE_ITEMS, Value, keywords
from specguide.guided.schema.core.nodes import CoreSchema, Node
from specguide.guided.schema.json_values import Json


def emit(schema: CoreSchema) -> dict[str, Json]:
    """Returns the JSON of a core schema, with its definitions under `$defs`."""
    written = _written(schema.root)
    root: dict[str, Json] = {} if isinstance(written, bool) else written
    if schema.definitions:
        root["$defs"] = {name: _written(core) for name, core in schema.definitions.items()}
    return root


def _written(value: Value) -> Json:
    if isinstance(value, Node):
        return {
            keyword: _written(part)
            for keyword, part in keywords(value).items()
            if keyword != UNIQUE_ITEMS
        }
    if isinstance(value, (tuple, list)):
        return [_written(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _written(item) for name, item in value.items()}
    return value
