"""Owns the facts for the guard of distinct items: where a text has JSON whose arrays must not
repeat an item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from specguide.guided.known.keys import shifted

_ANYWHERE: Final[Mapping[str, Any]] = {
    "is_distinct": False,
    "is_even": True,
    "room": "FREE",
    "endless": "",
    "spare": 0,
    "prefix": [],
    "rest": -1,
    "properties": {},
    "other": -1,
}
"""The fields of a place of JSON in which no items must be distinct."""


@dataclass(frozen=True)
class KnownItems:
    """The facts about a text's schemas.

    places: the fields of native.DistinctPlace for each place of them; and `spare`, the number of
            characters by which an array may be longer than the shortest, since its items must
            differ and are few
    starts: the texts behind which JSON begins, as in KnownKeys
    """

    places: list[dict[str, Any]] = field(default_factory=list)
    starts: list[tuple[list[int], int]] = field(default_factory=list)

    def add(self, places: Sequence[Mapping[str, Any]], starts: Iterable[bytes]) -> None:
        """Add a schema: its places, which may be none, and the texts behind which its JSON
        begins."""
        first = len(self.places)
        known = places or [_ANYWHERE]
        self.places.extend(shifted(place, first, "properties") for place in known)
        self.starts.extend((list(start), first) for start in starts)

    def unless_needless(self) -> KnownItems | None:
        """These facts; None where no items must be distinct."""
        return self if any(place["is_distinct"] for place in self.places) else None
