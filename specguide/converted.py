"""Owns fields whose value is converted when it is given, so that no object changes itself
afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def converted(default: Any, convert: Callable[[Any], Any]) -> Any:
    """The default of a dataclass's field that keeps `convert(value)` of each value it is given."""
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
