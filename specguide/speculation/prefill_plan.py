"""Owns the plan of a prefill: its integers, packed into one array that goes to the device in one
copy."""

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
"""More sizes for a prefill of a single request, so that its first token comes sooner. They are
whole tiles of the matrix products."""

PIGGYBACK_LIMITS = PiggybackLimits(16, (128, 256, 384, 512, 640, 768, 1024, 1536, 2048), tile=128)
"""Sizes of the chunks in captured mixed iterations. A library may choose far slower matrix products
for rows that do not fill tiles: 448 rows took as long as 700 on an H200."""

ENTERING_PAGES = 160
"""Most pages of a request whose slot the captured prefill itself writes: enough for 2,048 tokens,
and for a few hundred more that may be cached."""


class PrefillPlan(NamedTuple):
    """What a prefill computes: B requests and T tokens in all; int64, on the device. There may be
    padding behind the last request's tokens.

    axes is empty, [0], where rotation has one position a token.

    slots:      [B]
    token_ids:  [T], see Chunk
    bounds:     [B + 1], the tokens of request b are bounds[b] … bounds[b + 1] - 1
    ends:       [B], position after each request's last token
    nodes:      [B], index of each request's last token
    known_next: [B], the token after that one where it is known, else -1
    axes:       [3 · T], positions in time, height and width by which the tokens are rotated
    """

    slots: Tensor
    token_ids: Tensor
    bounds: Tensor
    ends: Tensor
    nodes: Tensor
    known_next: Tensor
    axes: Tensor

    @classmethod
    def of(cls, values: Tensor, size: PlanSize) -> PrefillPlan:
        """A plan of views into `values`, which begin with the result of `pack`."""
        num_requests, num_tokens, num_axes = size
        lens = [
            num_requests,
            num_tokens,
            num_requests + 1,
            num_requests,
            num_requests,
            num_requests,
            num_axes * num_tokens,
        ]
        return cls(*values[: size.num_values].split(lens))

    @classmethod
    def exact(
        cls, chunks: Sequence[Chunk], slots: Sequence[int], num_axes: int, device: torch.device
    ) -> PrefillPlan:
        """A plan without padding. num_axes: see PlanSize"""
        size = PlanSize(len(chunks), sum(len(chunk.token_ids) for chunk in chunks), num_axes)
        return cls.of(on_device(pack(chunks, slots, size, spare_slot=-1), device), size)


class PlanSize(NamedTuple):
    """The size of a plan: B and T, and how many positions each token's rotation has, if more than
    one: 3, else 0."""

    num_requests: int
    num_tokens: int
    num_axes: int = 0

    @property
    def num_values(self) -> int:
        """Number of values of such a plan."""
        return 5 * self.num_requests + (1 + self.num_axes) * self.num_tokens + 1


def pack(
    chunks: Sequence[Chunk], slots: Sequence[int], size: PlanSize, spare_slot: int
) -> list[int]:
    """The values of a plan, in the order of its fields.

    size: the plan is padded with empty requests of `spare_slot` and with tokens of no request. If
          there is an empty request, and the token after the last chunk is not known, there must be
          at least one such token
    """
    num_requests, num_tokens, num_axes = size
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
        *(place for axis in range(num_axes) for place in _axis(chunks, axis, num_tokens)),
    ]


def _axis(chunks: Sequence[Chunk], axis: int, num_tokens: int) -> list[int]:
    """The positions of all tokens along one axis, padded with 0."""
    places = [
        place
        for chunk in chunks
        for place in (range(chunk.start, chunk.end) if chunk.axes is None else chunk.axes[axis])
    ]
    return places + [0] * (num_tokens - len(places))


def entering_rows(
    rows: Sequence[SlotRow], num_rows: int, num_pages: int, spare_slot: int
) -> list[int]:
    """The values of `num_rows` rows with `num_pages` pages each, padded with rows that only clear
    the pages of `spare_slot`, which never has any."""
    empty = [SlotRow(spare_slot, ())] * (num_rows - len(rows))
    return [value for row in (*rows, *empty) for value in row.numbers(num_pages)]


def captured_size(
    num_requests: int, num_tokens: int, max_batch_size: int
) -> tuple[int, int] | None:
    """Numbers of requests and tokens of the smallest captured prefill that has room for these; None
    where there is none."""
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
    """All results of `captured_size` for prefills of at most `max_tokens`, largest first."""
    requests = {min(size, max_batch_size) for size in GRAPH_NUM_REQUESTS}
    sizes = [
        (num_requests, size)
        for num_requests in requests
        for smaller, size in pairwise((0, *_num_tokens(num_requests)))
        if smaller <= max_tokens
    ]
    return sorted(sizes, reverse=True)


def _num_tokens(num_requests: int) -> Sequence[int]:
    """Numbers of tokens of the captured prefills of `num_requests` requests, ascending."""
    if num_requests > 1:
        return GRAPH_NUM_TOKENS
    return sorted((*GRAPH_NUM_TOKENS, *_FURTHER_ALONE))


def largest_plan(max_batch_size: int, num_columns: int, num_axes: int) -> int:
    """Number of values of the largest plan of a captured pass, with the rows of slots before
    it. num_axes: see PlanSize"""
    num_requests, num_tokens = captured_sizes(max_batch_size)[0]
    alone = PlanSize(num_requests, num_tokens, num_axes).num_values
    beside = PlanSize(PIGGYBACK_LIMITS.max_chunks, PIGGYBACK_LIMITS.sizes[-1], num_axes).num_values
    return max(num_requests * num_columns + alone, beside)


class ScoredTokens(NamedTuple):
    """The S prompt tokens of a prefill that are scored.

    before:   int64 [S], index of the token before each of them, among the T tokens
    next_ids: int32 [S, 1], the tokens to score
    temperatures: float32 [S, 1], the logits behind each score are divided by it
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
