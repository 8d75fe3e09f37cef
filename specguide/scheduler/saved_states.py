"""Owns which prefixes have a saved state, for models that keep a state for each slot.

A request can go on behind the pages of another one only where the state behind the last of them was
saved. It is saved at the end of a long prompt, and where a prompt leaves one that was computed
before: a chunk ends there. Copies of states run in the order of the plans, so a row may be given to
another prefix at once: its last restore was planned before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from specguide.batch import StateCopy

_LEAST_SAVED = 512
"""A prompt of which so many tokens are computed is long: its last chunk but one ends with its last
page, which takes it one more iteration."""


class PrefixStates:
    """Behind which pages of others a request can go on: behind all of them, for a model whose keys
    are all that it remembers."""

    def num_usable(self, keys: Sequence[bytes]) -> int:
        """Behind how many of the pages with these keys a request can go on."""
        return len(keys)

    def restore(self, keys: Sequence[bytes], slot: int) -> None:
        """Plan that a slot's state becomes the one behind these pages."""

    def save(self, key: bytes, slot: int) -> None:
        """Plan that a slot's state is saved behind the next iteration; it is the one behind the
        page with this key."""

    def save_at(self, num_found: int, num_usable: int, num_pages: int) -> tuple[int, ...]:
        """Behind how many of a prompt's pages its state is to be saved, ascending.

        num_found, num_usable: pages whose keys are there, and those behind which it goes on
        num_pages: pages that its tokens fill, the last token aside
        """
        return ()

    def take(self) -> tuple[tuple[StateCopy, ...], tuple[StateCopy, ...]]:
        """The copies that were planned since the last call: those before the next iteration and
        those behind it."""
        return (), ()


class SavedStates(PrefixStates):
    """For a model with states. rows: where states can be saved

    The state that was not used for the longest time gives way, those first from which no request
    has gone on: the ends of many prompts do not displace the beginning that they share. At most
    half of the rows are kept from them (segmented LRU: Karedla, Love and Wherry, 1994).
    """

    def __init__(self, rows: range, page_size: int) -> None:
        self._least_pages = -(-_LEAST_SAVED // page_size)
        self._free = list(rows)
        self._most_used = len(rows) // 2
        self._used: OrderedDict[bytes, int] = OrderedDict()
        self._unused: OrderedDict[bytes, int] = OrderedDict()
        self._restored: dict[int, int] = {}
        self._saved: dict[bytes, StateCopy] = {}

    def num_usable(self, keys: Sequence[bytes]) -> int:
        """See PrefixStates."""
        return next((num for num in range(len(keys), 0, -1) if self._is_saved(keys[num - 1])), 0)

    def restore(self, keys: Sequence[bytes], slot: int) -> None:
        """See PrefixStates."""
        if not keys:
            return
        key = keys[-1]
        row = self._used.pop(key) if key in self._used else self._unused.pop(key)
        self._restored[slot] = self._used[key] = row
        if len(self._used) > self._most_used:
            self._unused.update([self._used.popitem(last=False)])

    def save(self, key: bytes, slot: int) -> None:
        """See PrefixStates."""
        if self._is_saved(key):
            kept = self._used if key in self._used else self._unused
            kept.move_to_end(key)
        elif key not in self._saved and (row := self._take_row()) is not None:
            self._saved[key] = StateCopy(slot, row)

    def save_at(self, num_found: int, num_usable: int, num_pages: int) -> tuple[int, ...]:
        """See PrefixStates."""
        places = {num_found} if num_found > num_usable else set()
        if num_pages - num_usable >= self._least_pages:
            places.add(num_pages)
        return tuple(sorted(places))

    def take(self) -> tuple[tuple[StateCopy, ...], tuple[StateCopy, ...]]:
        """See PrefixStates."""
        restored = tuple(StateCopy(row, slot) for slot, row in self._restored.items())
        saved = tuple(self._saved.values())
        self._unused.update({key: copy.target for key, copy in self._saved.items()})
        self._restored, self._saved = {}, {}
        return restored, saved

    def _is_saved(self, key: bytes) -> bool:
        return key in self._used or key in self._unused

    def _take_row(self) -> int | None:
        """A row for another state; None: all are to be saved in the next iteration."""
        if self._free:
            return self._free.pop()
        least = self._unused or self._used
        return least.popitem(last=False)[1] if least else None
