"""Owns the last pass: a core schema as the JSON that a backend is given."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.schema.core import Core as Written
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.keywords import Value, keywords
from specguide.guided.schema.nodes import Core, CoreSchema, Node


def emit(schema: CoreSchema) -> Written:
    """The JSON of a core schema, with its definitions under `$defs`."""
    written = _written(schema.root)
    root = Written("") if isinstance(written, bool) else written
    if schema.definitions:
        root["$defs"] = {name: _written(core) for name, core in schema.definitions.items()}
    return root


def _written(core: Core) -> Written | bool:
    if isinstance(core, bool):
        return core
    named = {keyword: _value(value) for keyword, value in keywords(core).items()}
    return Written(core.path, named)


def _value(value: Value) -> Json:
    if isinstance(value, Node):
        return _written(value)
    if isinstance(value, (tuple, list)):
        return [_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    return value
