"""Owns which requests wait and which run, with the slots and pages that running requests hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from specguide.errors import EngineError
from specguide.scheduler.block_tables import BlockTables
from specguide.scheduler.fairness import ClientShares
from specguide.scheduler.image_rows import ImageRows
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.saved_states import SavedStates
from specguide.scheduler.sequence import SequenceState
from specguide.scheduler.slots import SlotPool
from specguide.scheduler.waiting import WaitingQueue

if TYPE_CHECKING:
    from specguide.cache import PageAllocator

by_schedule_key = attrgetter("schedule_key")


class Placement:
    """Gives slots and pages to requests, and takes them from the requests with the greatest
    schedule keys. Nobody else changes its lists.

    shares:     how many tokens each client was served
    waiting:    requests without a slot
    prefilling: requests with a slot whose keys are not all planned yet
    decoding:   the other requests with a slot
    tables:     the pages of each running request
    images:     the rows of the images of running requests
    """

    def __init__(
        self, limits: SchedulerLimits, pages: PageAllocator, slot_is_idle: Callable[[int], bool]
    ) -> None:
        self._limits, self._pages = limits, pages
        num_ahead = min(limits.num_draft_tokens, 1)
        states = (
            None if limits.state_rows is None else SavedStates(limits.state_rows, limits.page_size)
        )
        self.tables = BlockTables(pages, limits.page_size, num_ahead=num_ahead, states=states)
        self.images = ImageRows(limits.image_rows)
        self.shares = ClientShares()
        self.waiting = WaitingQueue(self.shares, self.tables.num_cached)
        self.prefilling: list[SequenceState] = []
        self.decoding: list[SequenceState] = []
        self._slots = SlotPool(limits.max_batch_size, slot_is_idle)
        self._released: list[int] = []  # since the last answer

    @property
    def running(self) -> list[SequenceState]:
        """Requests with a slot."""
        return [*self.prefilling, *self.decoding]

    @property
    def num_running(self) -> int:
        """Number of requests with a slot."""
        return len(self.prefilling) + len(self.decoding)

    def check_integrity(self) -> None:
        """Raise EngineError unless every page and slot is held by those that should hold it."""
        running = self.running
        if len({sequence.slot for sequence in running}) != len(running) or any(
            sequence.slot < 0 for sequence in running
        ):
            raise EngineError("a slot is held by two requests, or a running request has none")
        self.tables.check_integrity(running)

    def enter(self, sequence: SequenceState) -> None:
        """Queue a new request."""
        self.shares.open(sequence)
        self.waiting.push(sequence)

    def end(self, sequence: SequenceState) -> None:
        """Remove a request that waits or runs."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        elif sequence.slot >= 0:
            self.leave(sequence)
        self.shares.close(sequence)
        self.waiting.place(sequence.client)

    def admit(self) -> None:
        """Give slots to waiting requests while there are slots and pages, and while the next
        iterations have room for their prompts. Later requests wait without a slot, so that a
        newcomer can still go before them."""
        if not self.waiting:
            return
        promised = sum(self._num_pages_to_come(sequence) for sequence in self.prefilling)
        num_to_compute = sum(self._num_to_compute(sequence) for sequence in self.prefilling)
        while (sequence := self.waiting.first()) is not None:
            promised += self._num_pages_to_come(sequence)
            if promised > self._pages.num_free or num_to_compute >= self._limits.max_prefill_tokens:
                return
            if not self.images.hold(sequence.images):
                return
            slot = self._slots.acquire()
            if slot is None:
                self.images.release(sequence.images)
                return
            num_to_compute += self._num_to_compute(sequence)
            sequence.enter_slot(slot)
            self.prefilling.append(self.waiting.pop())

    def start_decoding(self, sequences: Iterable[SequenceState]) -> None:
        """Move requests from prefilling to decoding: the keys of their tokens are all planned."""
        for sequence in sequences:
            self.prefilling.remove(sequence)
            self.decoding.append(sequence)

    def prefill_again(self, sequence: SequenceState) -> None:
        """Move a request back to prefilling: its last token is to be computed again."""
        self.decoding.remove(sequence)
        self.prefilling.append(sequence)

    def num_tokens_to_admit(self) -> float:
        """Expected prompt tokens of the waiting requests for which there are free slots: their
        number times the mean prompt."""
        load = self.waiting.load()
        if not load.num_requests:
            return 0.0
        num_left = self._limits.max_batch_size - self.num_running
        return load.num_prompt_tokens * min(1.0, num_left / load.num_requests)

    @property
    def num_ahead(self) -> int:
        """Positions behind its prompt that a request needs up to the end of its first iteration."""
        return self._limits.num_behind + 1

    def most_positions(self, sequence: SequenceState) -> int:
        """Most positions that it may ever use."""
        return sequence.max_len + self._limits.num_behind

    def make_room(self, sequence: SequenceState, num_positions: int) -> bool:
        """Give a request pages for this many positions, if necessary by preempting requests with
        greater schedule keys. Returns False where the request itself was preempted."""
        most = self.most_positions(sequence)
        while not self.tables.grow(sequence, min(num_positions, most), most):
            victim = max(self.running, key=by_schedule_key)
            self.preempt(victim)
            if victim is sequence:
                return False
        return True

    def preempt(self, sequence: SequenceState) -> None:
        """Take slot and pages from a request, which waits again."""
        self.leave(sequence)
        sequence.lose_slot()
        self.waiting.push(sequence)

    def leave(self, sequence: SequenceState) -> None:
        """Release the slot and the pages of a running request."""
        (self.prefilling if sequence in self.prefilling else self.decoding).remove(sequence)
        self.tables.close(sequence)
        self.images.release(sequence.images)
        self._slots.release(sequence.slot)
        self._released.append(sequence.slot)

    def take_released(self) -> tuple[int, ...]:
        """Slots that were released since the last call."""
        released = tuple(self._released)
        self._released = []
        return released

    def _num_to_compute(self, sequence: SequenceState) -> int:
        """Number of its tokens whose keys are neither planned nor in the cache."""
        is_open = sequence in self.tables
        return sequence.num_left - (0 if is_open else self.tables.num_cached(sequence))

    def _num_pages_to_come(self, sequence: SequenceState) -> int:
        """Number of pages that it still needs up to the end of its prefill and first iteration."""
        num_positions = min(sequence.num_tokens + self.num_ahead, self.most_positions(sequence))
        return self.tables.num_pages(num_positions) - self.tables.num_held(sequence)
