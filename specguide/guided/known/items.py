"""Owns what a guard must know of the JSON in a text whose arrays have distinct items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from specguide.guided.known.keys import shifted

_ANYWHERE: Final[Mapping[str, Any]] = {
    "is_distinct": False,
    "is_even": True,
    "room": "FREE",
    "spare": 0,
    "prefix": [],
    "rest": -1,
    "properties": {},
    "other": -1,
}
"""Fields of a place of JSON in which no items must differ."""


@dataclass(frozen=True)
class KnownItems:
    """What is known of a text's schemas.

    places: the fields of native.DistinctPlace for each place of them; and `spare`, characters by
            which an array may be longer than the shortest, since its items must differ and are few
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
        """These items; None where no items must differ."""
        return self if any(place["is_distinct"] for place in self.places) else None
