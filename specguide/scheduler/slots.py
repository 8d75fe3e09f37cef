"""Owns the slots: which are free, and which are still used by work for their last request."""

from __future__ import annotations

from collections.abc import Callable


class SlotPool:
    """Hands out slots, lowest first. A released slot is handed out again only once `is_idle(slot)`.

    Until then, a grammar worker may still be inside the released request's matcher, and would write
    the slot's row.
    """

    def __init__(self, num_slots: int, is_idle: Callable[[int], bool]) -> None:
        self._free = set(range(num_slots))
        self._draining: set[int] = set()
        self._is_idle = is_idle

    def acquire(self) -> int | None:
        """The lowest free slot, or None."""
        idle = {slot for slot in self._draining if self._is_idle(slot)}
        self._draining -= idle
        self._free |= idle
        if not self._free:
            return None
        slot = min(self._free)
        self._free.remove(slot)
        return slot

    def release(self, slot: int) -> None:
        """Give a slot back. It becomes free once it is idle."""
        self._draining.add(slot)
