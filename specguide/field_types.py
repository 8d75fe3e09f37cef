"""Owns the check that the fields of a configuration have the types that they are declared with."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from specguide.errors import InvalidParams

_WORDS: Mapping[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a text",
    type(None): "None",
    tuple[str, ...]: "texts in a list",
}


def check_types(config: Any) -> None:
    """Raises InvalidParams for a field of a dataclass that has another type than its hint says;
    numbers may be numpy's, and tuples lists."""
    hints = get_type_hints(type(config))
    for entry in fields(config):
        hint = hints[entry.name]
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        value = getattr(config, entry.name)
        if not any(_is_a(value, kind) for kind in kinds):
            words = " or ".join(_WORDS.get(kind) or f"a {kind.__name__}" for kind in kinds)
            raise InvalidParams(f"{entry.name} must be {words}, found {value!r}", param=entry.name)


def _is_a(value: Any, kind: Any) -> bool:
    if kind in (int, float):
        wanted = numbers.Integral if kind is int else numbers.Real
        return isinstance(value, wanted) and not isinstance(value, bool)
    if get_origin(kind) is tuple:
        of = get_args(kind)[0]
        return isinstance(value, list | tuple) and all(_is_a(one, of) for one in value)
    return isinstance(value, get_origin(kind) or kind)
