"""Owns mixed iterations of chosen sizes: requests that decode, and chunks of prompts beside, on the
engine's executor without a scheduler."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import Tensor

from benchmarks.common import facts_of
from benchmarks.gpu.timing import mark_of, ms_between
from benchmarks.models.llama_8b import RandomModels
from specguide.batch import Batch, Chunk, Piggyback, SamplingValues, SlotEntry, Start, StateCopy
from specguide.config import CacheConfig, EngineConfig, SpecConfig
from specguide.config.resolved import resolve
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.requests.walks import Walks
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec

MAX_LEN, PAGE_SIZE = 2048, 16
_PAGES_EACH = MAX_LEN // PAGE_SIZE
NUM_SPARE = 4
"""Number of slots whose prompts are computed while the others decode."""
_FIRST_TOKENS = 1 << 10
"""The tokens of prompts are below this number, so that every model has them."""


@dataclass(frozen=True)
class Size:
    """The size of an iteration: requests that decode, and prompt tokens."""

    num_decoding: int
    num_prompt: int


class MixedCase:
    """Slots whose keys are those of random prompts, of which some decode from `prompt_len` - 1 on.

    config:     of an engine that `executor` runs; its tokenizer is the shipped model's, and unused
    num_slots:  of the executor; the last NUM_SPARE never decode
    prompt_len: tokens of a prompt; of one chunk at most
    """

    def __init__(
        self, models: RandomModels, spec: SpecConfig | None, num_slots: int, prompt_len: int
    ) -> None:
        self.num_slots, self._prompt_len = num_slots, prompt_len
        self.config = EngineConfig(
            spec=spec,
            max_batch_size=num_slots,
            max_model_len=MAX_LEN,
            cache=CacheConfig(page_size=PAGE_SIZE, num_pages=num_slots * _PAGES_EACH),
        )
        drafter = models.drafters[spec.method] if spec else None
        resolved = resolve(self.config, facts_of(models.target))
        self.executor = LocalExecutor.build(resolved, models.target, drafter)
        self.executor.warm_up()
        self.limits = self.executor.capabilities.piggyback
        numbers = random.Random(1)
        self._walks = Walks()
        self._num_walks = 0
        self._requests = [self._request(slot, numbers) for slot in range(num_slots)]
        self._tables = [
            tuple(range(slot * _PAGES_EACH, (slot + 1) * _PAGES_EACH)) for slot in range(num_slots)
        ]
        rows = self.executor.capabilities.state_rows or range(0)
        self._saved = dict(zip(range(num_slots), rows, strict=False))
        for slot in range(num_slots):
            self._run(self._prompt_alone(slot))

    def run(self, size: Size, num_iterations: int) -> tuple[list[float], list[Tensor]]:
        """Run iterations of one size, with new requests. Returns the milliseconds between the ends
        of successive iterations, and the tokens of each."""
        stream = self.executor.grammar.forward.torch
        pending, marks, tokens = [], [mark_of(stream)], []
        for batch in self._batches(size, num_iterations):
            pending.append(self._launch(batch))
            marks.append(mark_of(stream))
            if len(pending) > self.executor.capabilities.lag:
                tokens.append(pending.pop(0).result().tokens.clone())
        tokens += [last.result().tokens.clone() for last in pending]
        return [ms_between(*pair) for pair in pairwise(marks)], tokens

    def leave(self) -> None:
        """Release the executor's slots, so that others can use it."""
        self.executor.release(range(self.num_slots))
        for slot in range(self.num_slots):
            self.executor.grammar.detach(slot)

    def _request(self, slot: int, numbers: random.Random) -> Request:
        prompt = tuple(numbers.randrange(_FIRST_TOKENS) for _ in range(self._prompt_len))
        request = Request(RequestSpec(slot, prompt, SamplingParams(max_tokens=MAX_LEN)))
        self._walks.add(request, None, layout=None)
        return request

    def _prompt_alone(self, slot: int) -> Batch:
        """A prefill of a prompt without its last token."""
        chunk = self._chunk(slot, self._prompt_len - 1)
        batch = replace(self._batch([slot]), chunks=(chunk,), entries=(_entry(slot),))
        saved = (StateCopy(slot, self._saved[slot]),) if slot in self._saved else ()
        return replace(batch, saved=saved)

    def _batches(self, size: Size, num_iterations: int) -> Iterator[Batch]:
        batch = replace(
            self._batch(range(size.num_decoding)), piggyback=self._piggyback(size.num_prompt)
        )
        starts = tuple(
            Start(
                row,
                _entry(row),
                self._prompt(row)[-1],
                self._prompt_len - 1,
                row >= self._num_walks,
            )
            for row in range(size.num_decoding)
        )
        self._num_walks = max(self._num_walks, size.num_decoding)
        saved = [(self._saved[slot], slot) for slot in batch.slots if slot in self._saved]
        restored = tuple(StateCopy(*pair) for pair in saved)
        for number in range(num_iterations):
            yield batch if number else replace(batch, starts=starts, restored=restored)

    def _piggyback(self, num_tokens: int) -> Piggyback:
        """Chunks of the spare slots' prompts, from their beginnings."""
        most = self._prompt_len - 1
        lengths = [min(most, num_tokens - start) for start in range(0, num_tokens, most)]
        slots = range(self.num_slots - len(lengths), self.num_slots)
        assert len(lengths) <= NUM_SPARE, "more prompt tokens than the spare slots have"
        chunks = [self._chunk(*pair) for pair in zip(slots, lengths, strict=True)]
        tables = tuple(self._tables[slot] for slot in slots)
        return Piggyback(tuple(slots), tables, tuple(chunks), (0,) * len(slots))

    def _prompt(self, slot: int) -> Sequence[int]:
        return self._requests[slot].prompt_ids

    def _chunk(self, slot: int, length: int) -> Chunk:
        prompt = self._prompt(slot)
        return Chunk(prompt[:length], 0, prompt[length], starts_walk=False)

    def _batch(self, slots: Sequence[int]) -> Batch:
        return Batch(tuple(slots), tuple(slots), tuple(self._tables[slot] for slot in slots))

    def _launch(self, batch: Batch) -> Any:
        requests = [self._requests[slot] for slot in batch.slots]
        self.executor.grammar.submit(self._walks.snapshot(batch, requests))
        return self.executor.execute(batch)

    def _run(self, batch: Batch) -> None:
        self._launch(batch).result()


def _entry(slot: int) -> SlotEntry:
    return SlotEntry(MAX_LEN, (), SamplingValues(seed=slot))
