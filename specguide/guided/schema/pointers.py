"""Owns the steps of JSON pointers (RFC 6901)."""

from __future__ import annotations

from specguide.guided.schema.json_values import Json, is_object

_MOST_DIGITS = 10


def escaped(key: str) -> str:
    """Returns a key as a step of a pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def unescaped(step: str) -> str:
    """Returns the key that a step names."""
    return step.replace("~1", "/").replace("~0", "~")


def step_into(value: Json, step: str) -> Json:
    """Returns the value at a step into `value`. Raises LookupError where there is none."""
    key = unescaped(step)
    if isinstance(value, list):
        is_index = key.isascii() and key.isdigit() and len(key) < _MOST_DIGITS
        return value[int(key) if is_index else len(value)]
    if not is_object(value):
        raise LookupError(step)
    return value[key]
