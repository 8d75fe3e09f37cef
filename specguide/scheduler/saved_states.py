"""Owns which prefixes have a saved state, for models that keep a state for each slot.

A request can go on behind the pages of another one only where the state behind the last of them was
saved. It is saved where a chunk of a prompt ends with a page. Copies of states run in the order of
the plans, so a row may be given to another prefix at once: its last restore was planned before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from specguide.batch import StateCopy

_LEAST_SAVED = 512
"""A prompt of which so many tokens are to be computed ends its last chunk but one with a page, so
that its state can be saved; that takes it one more iteration."""


class NoStates:
    """Of a model whose keys are all that it remembers."""

    def num_usable(self, keys: Sequence[bytes]) -> int:
        """Behind how many of the pages with these keys a request can go on."""
        return len(keys)

    def restore(self, keys: Sequence[bytes], slot: int) -> None:
        """Plan that a slot's state becomes the one behind these pages."""

    def save(self, key: bytes, slot: int) -> None:
        """Plan that a slot's state is saved behind the next iteration; it is the one behind the
        page with this key."""

    def chunk_end(self, start: int, end: int, num_tokens: int, page_size: int) -> int:
        """The position at which a chunk from `start` on is to end, which may be up to `end`."""
        return end

    def take(self) -> tuple[tuple[StateCopy, ...], tuple[StateCopy, ...]]:
        """The copies that were planned since the last call: those before the next iteration and
        those behind it."""
        return (), ()


class SavedStates(NoStates):
    """Of a model with states. rows: where states can be saved; the one that was not used for the
    longest time gives way"""

    def __init__(self, rows: range) -> None:
        self._free = list(rows)
        self._rows: OrderedDict[bytes, int] = OrderedDict()
        self._restored: dict[int, int] = {}
        self._saved: list[StateCopy] = []

    def num_usable(self, keys: Sequence[bytes]) -> int:
        """See NoStates."""
        return next((num for num in range(len(keys), 0, -1) if keys[num - 1] in self._rows), 0)

    def restore(self, keys: Sequence[bytes], slot: int) -> None:
        """See NoStates."""
        if keys:
            self._rows.move_to_end(keys[-1])
            self._restored[slot] = self._rows[keys[-1]]

    def save(self, key: bytes, slot: int) -> None:
        """See NoStates."""
        if key in self._rows:
            self._rows.move_to_end(key)
        elif self._free or self._rows:
            row = self._free.pop() if self._free else self._rows.popitem(last=False)[1]
            self._rows[key] = row
            self._saved.append(StateCopy(slot, row))

    def chunk_end(self, start: int, end: int, num_tokens: int, page_size: int) -> int:
        """See NoStates. Where the prompt goes on, it ends with a page."""
        is_rest = end >= num_tokens - 1
        last = min(end, num_tokens - 1) // page_size * page_size
        if last <= start or (is_rest and last - start < _LEAST_SAVED):
            return end
        return last

    def take(self) -> tuple[tuple[StateCopy, ...], tuple[StateCopy, ...]]:
        """See NoStates."""
        restored = tuple(StateCopy(row, slot) for slot, row in self._restored.items())
        saved = tuple(self._saved)
        self._restored, self._saved = {}, []
        return restored, saved
