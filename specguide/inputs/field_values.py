"""Owns how the values of a dataclass's fields are checked against their declared types, and
converted when they are set, so that no frozen object has to change itself afterwards."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
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
    tuple[str, ...]: "a list of texts",
}


def check_types(config: Any) -> None:
    """Raises InvalidParams for a field whose value does not have the type of its hint. A number may
    be one of numpy's, and a tuple may be a list."""
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


def converted(default: Any, convert: Callable[[Any], Any]) -> Any:
    """The default for a dataclass field that stores `convert(value)` of each value it is given."""
    return _Converted(default, convert)


class _Converted:
    """A descriptor-typed field, as in the documentation of Python's dataclasses."""

    def __init__(self, default: Any, convert: Callable[[Any], Any]) -> None:
        self._default = default
        self._convert = convert

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        return self._default if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = self._convert(value)
