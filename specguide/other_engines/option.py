"""Owns OtherOption: how an option of another engine is treated, and what many of them have in
common."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from specguide.errors import InvalidParams

T = TypeVar("T")
Keywords = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Spelling = Callable[[str], str]
"""How the caller writes one of our options, such as --max-batch-size."""


@dataclass(frozen=True)
class OtherOption:
    """An option of another engine.

    remedy:   what to do instead, with our options as {name}; None: the option changes nothing here,
              whatever its value
    harmless: values, as on a command line, that change nothing here
    is_flag:  on a command line it has no value
    same:     our flag with the same meaning, which is read in its place
    takes_many: on that engine's command line it takes all values that follow
    """

    remedy: str | None = None
    harmless: tuple[str, ...] = ()
    is_flag: bool = False
    takes_many: bool = False
    same: str | None = None

    def check(self, name: str, value: Any, spelling: Spelling) -> None:
        """Raises InvalidParams if the value would have to change something."""
        if self.remedy is None or value is None or str(value).lower() in self.harmless:
            return
        remedy = re.sub(r"\{(\w+)\}", lambda ours: spelling(ours[1]), self.remedy)
        raise InvalidParams(f"{spelling(name)} is not an option here: {remedy}", param=name)


NOTHING = OtherOption()
"""An option that changes nothing here."""
OFF = ("false",)
EMPTY = ("", "{}", "[]", "()")
"""Values that ask for nothing, for flags and for other options."""

LORA = "name the adapter in lora of SamplingParams; the engine has it by lora_modules"
OWN_TOKENIZER = "the tokenizer is that of the model's folder: change it there"
TEXT_ONLY = "only models that generate text are supported"


def without_others(
    options: Mapping[str, OtherOption], given: Mapping[str, Any], spelling: Spelling
) -> dict[str, Any]:
    """The given options without those of other engines. Raises InvalidParams for one that would
    have to change something."""
    for name, value in given.items():
        if name in options:
            options[name].check(name, value, spelling)
    return {name: value for name, value in given.items() if name not in options}


def called(name: str) -> OtherOption:
    """An option that is called `name` here."""
    return OtherOption(f"use {{{name}}}")


def same_as(name: str) -> OtherOption:
    """A flag that is called `name` here, and is read as that flag."""
    return OtherOption(f"use {{{name}}}", OFF, is_flag=True, same=name)


def only_off(remedy: str) -> OtherOption:
    """A flag that must be off."""
    return OtherOption(remedy, OFF, is_flag=True)


def knows_others(read: Keywords) -> Callable[[type[T]], type[T]]:
    """Decorates a class that accepts keyword arguments by the names of other engines, or refuses
    them and says what to do instead. read: gives the arguments by the class's own names"""

    def decorated(kind: type[T]) -> type[T]:
        own = kind.__init__

        @wraps(own)
        def init(self: T, *args: Any, **given: Any) -> None:
            own(self, *args, **read(given))

        kind.__init__ = init  # type: ignore[misc,assignment]
        return kind

    return decorated


def unknown(owner: str, name: str, own: Collection[str]) -> TypeError:
    """What is raised where `owner` has no parameter `name`. own: the parameters that it has"""
    near = get_close_matches(name, own)
    like = f"; similar names: {', '.join(near)}" if near else ""
    return TypeError(f"{owner} has no parameter {name!r}{like}")


def missing(owner: object, name: str, others: Mapping[str, str]) -> AttributeError:
    """What is raised where `owner` has no attribute `name`; others: what to do instead, of those
    that another engine has there."""
    remedy = f": {others[name]}" if name in others else ""
    return AttributeError(
        f"{type(owner).__name__} has no attribute {name!r}{remedy}", name=name, obj=owner
    )
