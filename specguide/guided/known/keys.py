"""Owns the facts for the guard of keys: where a text has JSON whose objects have their keys in any
order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

TEXT_START, JSON_END, ARGUMENTS_START = b"\xfe", b"\xfd", b"\xfc"
"""Marks in the texts behind which JSON begins: the start of the text, the end of other JSON, and
the start of a call's arguments."""


def special_token(token: int) -> bytes:
    """A special token's bytes in a text: its id, between bytes that no other text contains."""
    return b"\xff%d\xff" % token


@dataclass(frozen=True)
class KnownKeys:
    """The facts about a grammar's schemas.

    places: the fields of native.KeyPlace for each place of them
    starts: the texts behind which JSON begins, as lists of bytes, each with its place; empty where
            the whole text is JSON
    """

    places: list[dict[str, Any]] = field(default_factory=list)
    starts: list[tuple[list[int], int]] = field(default_factory=list)

    def add(self, places: Iterable[Mapping[str, Any]], starts: Iterable[bytes]) -> None:
        """Add a schema: its places, and the texts behind which its JSON begins."""
        first = len(self.places)
        self.places.extend(shifted(place, first, "names") for place in places)
        self.starts.extend((list(start), first) for start in starts)


def shifted(place: Mapping[str, Any], by: int, by_name: str) -> dict[str, Any]:
    """The place with all place numbers in it raised by `by`. Numbers below 0 are not places and
    stay.

    by_name: the field that maps names of properties to place numbers
    """

    def shift(number: int) -> int:
        return number if number < 0 else number + by

    return {
        **place,
        by_name: {name: shift(number) for name, number in place[by_name].items()},
        "other": shift(place["other"]),
        "prefix": list(map(shift, place["prefix"])),
        "rest": shift(place["rest"]),
    }
