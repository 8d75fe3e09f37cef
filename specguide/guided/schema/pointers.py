"""Owns the steps of JSON pointers (RFC 6901)."""

from __future__ import annotations

from specguide.guided.schema.json_values import Json, is_object

_MOST_DIGITS = 10


def escaped(key: str) -> str:
    """The step that names a key."""
    return key.replace("~", "~0").replace("/", "~1")


def unescaped(step: str) -> str:
    """The key that a step names."""
    return step.replace("~1", "/").replace("~0", "~")


def step_into(value: Json, step: str) -> Json:
    """What a step leads to. Raises LookupError where that is nothing."""
    key = unescaped(step)
    if isinstance(value, list):
        is_index = key.isascii() and key.isdigit() and len(key) < _MOST_DIGITS
        return value[int(key) if is_index else len(value)]
    if not is_object(value):
        raise LookupError(step)
    return value[key]
