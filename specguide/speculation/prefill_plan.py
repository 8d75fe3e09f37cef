"""Owns what a prefill computes, as small integers that go to the device together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.batch import Chunk
from specguide.kernels import on_device
from specguide.kernels.slot_rows import SlotRow
from specguide.piggyback import PiggybackLimits

GRAPH_NUM_REQUESTS = (1, 2, 4, 8, 16)
GRAPH_NUM_TOKENS = (16, 32, 64, 128, 256, 384, 512, 1024, 2048)
"""Sizes of the prefills that are captured."""

_FURTHER_ALONE = (640, 768, 896, 1280, 1536)
"""Tokens of a request alone, whose first token somebody waits for: whole tiles of products."""

PIGGYBACK_LIMITS = PiggybackLimits(16, (128, 256, 384, 512, 640, 768, 1024, 1536, 2048), tile=128)
"""Sizes of what is computed beside captured decode iterations. A library may choose far slower
products for rows that do not fill tiles: 448 took as long as 700 on an H200."""

ENTERING_PAGES = 160
"""Most pages of a request whose slot is written by the captured prefill itself: those of 2,048
tokens, and of a few hundred more that may be there already."""


class PrefillPlan(NamedTuple):
    """B requests and T tokens in all; int64, on the device. Behind the last request's tokens there
    may be padding.

    slots:      [B]
    token_ids:  [T]
    bounds:     [B + 1], the tokens of request b are bounds[b] … bounds[b + 1] - 1
    ends:       [B], position after each request's last token
    nodes:      [B], index of each request's last token
    known_next: [B], the token after it where that is known, else -1
    """

    slots: Tensor
    token_ids: Tensor
    bounds: Tensor
    ends: Tensor
    nodes: Tensor
    known_next: Tensor

    @classmethod
    def of(cls, values: Tensor, num_requests: int, num_tokens: int) -> PrefillPlan:
        """Views of the beginning of `values`, which hold what `pack` gives."""
        lens = [
            num_requests,
            num_tokens,
            num_requests + 1,
            num_requests,
            num_requests,
            num_requests,
        ]
        return cls(*values[: packed_len(num_requests, num_tokens)].split(lens))

    @classmethod
    def exact(
        cls, chunks: Sequence[Chunk], slots: Sequence[int], device: torch.device
    ) -> PrefillPlan:
        """A plan that is not filled up."""
        size = len(chunks), sum(len(chunk.token_ids) for chunk in chunks)
        return cls.of(on_device(pack(chunks, slots, size, spare_slot=-1), device), *size)


def packed_len(num_requests: int, num_tokens: int) -> int:
    """Number of values of a packed plan."""
    return 5 * num_requests + num_tokens + 1


def pack(
    chunks: Sequence[Chunk], slots: Sequence[int], size: tuple[int, int], spare_slot: int
) -> list[int]:
    """A plan's values in its order.

    size: B and T. What is not there is filled up with empty requests of `spare_slot` and tokens of
          nobody, of which there must be one where there is an empty request and the token after the
          last chunk is not known
    """
    num_requests, num_tokens = size
    num_empty = num_requests - len(chunks)
    last_id = chunks[-1].next_id if chunks else None
    bounds = [0, *accumulate(len(chunk.token_ids) for chunk in chunks)]
    token_ids = [token for chunk in chunks for token in chunk.token_ids]
    return [
        *slots,
        *[spare_slot] * num_empty,
        *token_ids,
        *[0] * (num_tokens - len(token_ids)),
        *bounds,
        *[bounds[-1]] * num_empty,
        *(chunk.end for chunk in chunks),
        *[0] * num_empty,
        *(bound - 1 for bound in bounds[1:]),
        *[num_tokens - 1 if last_id is None else bounds[-1] - 1] * num_empty,
        *(-1 if chunk.next_id is None else chunk.next_id for chunk in chunks),
        *[-1 if last_id is None else last_id] * num_empty,
    ]


def entering_rows(
    rows: Sequence[SlotRow], num_rows: int, num_pages: int, spare_slot: int
) -> list[int]:
    """The values of `num_rows` rows with `num_pages` pages. What is not there is filled up with
    rows that write nothing but the absence of pages, which `spare_slot` never has."""
    empty = [SlotRow(spare_slot, ())] * (num_rows - len(rows))
    return [value for row in (*rows, *empty) for value in row.numbers(num_pages)]


def captured_size(
    num_requests: int, num_tokens: int, max_batch_size: int
) -> tuple[int, int] | None:
    """Requests and tokens of the captured prefill in which so many of each find room; None where
    there is none."""
    requests = next(
        (min(size, max_batch_size) for size in GRAPH_NUM_REQUESTS if size >= num_requests), None
    )
    if requests is None:
        return None
    needed = num_tokens + (requests > num_requests)
    tokens = next((size for size in _num_tokens(requests) if size >= needed), None)
    return None if tokens is None else (requests, tokens)


def captured_sizes(
    max_batch_size: int, max_tokens: int = GRAPH_NUM_TOKENS[-1]
) -> list[tuple[int, int]]:
    """All that `captured_size` gives for prefills of at most `max_tokens`, largest first."""
    requests = {min(size, max_batch_size) for size in GRAPH_NUM_REQUESTS}
    sizes = [
        (num_requests, size)
        for num_requests in requests
        for smaller, size in pairwise((0, *_num_tokens(num_requests)))
        if smaller <= max_tokens
    ]
    return sorted(sizes, reverse=True)


def _num_tokens(num_requests: int) -> Sequence[int]:
    """Token counts of the captured prefills of so many requests, ascending."""
    if num_requests > 1:
        return GRAPH_NUM_TOKENS
    return sorted((*GRAPH_NUM_TOKENS, *_FURTHER_ALONE))


def largest_plan(max_batch_size: int, num_columns: int) -> int:
    """Values of the largest plan of a captured pass, with rows of slots before it."""
    num_requests, num_tokens = captured_sizes(max_batch_size)[0]
    prefill = num_requests * num_columns + packed_len(num_requests, num_tokens)
    return max(prefill, packed_len(PIGGYBACK_LIMITS.max_chunks, PIGGYBACK_LIMITS.sizes[-1]))


class ScoredTokens(NamedTuple):
    """Prompt tokens that are scored.

    before:   int64 [S], index among the T tokens of the one before each
    next_ids: int32 [S, 1]
    temperatures: float32 [S, 1], by which the logits of each are divided
    """

    before: Tensor
    next_ids: Tensor
    temperatures: Tensor

    @classmethod
    def of(cls, chunks: Sequence[Chunk], device: torch.device) -> ScoredTokens | None:
        """The scored tokens; None where there are none."""
        starts = accumulate((len(chunk.token_ids) for chunk in chunks), initial=0)
        index = [
            start + place
            for start, chunk in zip(starts, chunks, strict=False)
            for place in range(len(chunk.scored_ids))
        ]
        next_ids = [[token] for chunk in chunks for token in chunk.scored_ids]
        if not index:
            return None
        temperatures = [[chunk.score_temperature] for chunk in chunks for _ in chunk.scored_ids]
        return cls(
            on_device(index, device),
            on_device(next_ids, device, torch.int32),
            on_device(temperatures, device, torch.float32),
        )
