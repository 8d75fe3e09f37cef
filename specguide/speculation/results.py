"""Owns the way of an iteration's results to the host: pinned memory in a ring, one event for each
iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.batch import StepOutput, TokenScores
from specguide.sampling import Failures


class VerifyOutput(NamedTuple):
    """What an iteration has verified, on its device.

    tokens:       int32 [B, N], what the target says after each node, of which the first
                  num_accepted + 1 count
    num_accepted: int32 [B], drafts; -1: the slot was held
    drafts:       int32 [B, N - 1], those that were verified, -1 for none
    scores:       of `tokens`, where a request asks for them
    failures:     of logits processors
    prompt_scores: as in StepOutput
    origins:      uint8 [B, N - 1], who proposed the drafts that were verified, where that differs:
                  batch.DRAFT_ORIGINS
    """

    tokens: Tensor
    num_accepted: Tensor
    drafts: Tensor
    scores: TokenScores | None
    failures: Failures
    prompt_scores: TokenScores | None = None
    origins: Tensor | None = None


@dataclass(frozen=True, eq=False)
class PendingOutput:
    """The output of an iteration that may still run. To be read before its place in the ring comes
    round again."""

    verified: VerifyOutput
    rows: Sequence[int]
    done: torch.cuda.Event | None

    def result(self) -> StepOutput:
        """Waits for the iteration. Raises torch's error where the device failed."""
        if self.done is not None:
            self.done.synchronize()
        rows, (tokens, num_accepted, drafts, scores, failures, prompt_scores, origins) = (
            list(self.rows),
            self.verified,
        )
        return StepOutput(
            tokens=tokens[rows],
            num_tokens=num_accepted[rows] + 1,
            drafts=drafts[rows],
            scores=TokenScores(*(tensor[rows] for tensor in scores.tensors()))
            if scores is not None
            else None,
            prompt_scores=prompt_scores,
            failures=failures,
            origins=None if origins is None else origins[rows],
        )


class ResultRing:
    """Copies results to the host in the order of `stream`; without one they are on the host
    already.

    depth: iterations that may be under way at once
    """

    def __init__(
        self, depth: int, max_batch_size: int, num_nodes: int, stream: torch.cuda.Stream | None
    ) -> None:
        self._stream, self._next, self._max_tokens = stream, 0, max_batch_size * num_nodes
        sizes = self._max_tokens, max_batch_size, self._max_tokens - max_batch_size
        self._places = [
            (
                [_pinned(torch.int32, size) for size in sizes],
                _pinned(torch.uint8, sizes[-1]),
                torch.cuda.Event(),
            )
            for _ in range(depth if stream else 0)
        ]
        self._score_places: list[list[Tensor]] = [[] for _ in self._places]

    def put(self, verified: VerifyOutput, rows: Sequence[int]) -> PendingOutput:
        """The batch's are `rows` of what was verified, in order."""
        if self._stream is None:
            return PendingOutput(verified, rows, None)
        (host_tokens, host_num_accepted, host_drafts), host_origins, done = self._places[self._next]
        on_host = VerifyOutput(
            tokens=_copy(verified.tokens, host_tokens),
            num_accepted=_copy(verified.num_accepted, host_num_accepted),
            drafts=_copy(verified.drafts, host_drafts),
            scores=None if verified.scores is None else self._copy_scores(verified.scores),
            failures=verified.failures,
            prompt_scores=verified.prompt_scores and _to_pinned(verified.prompt_scores),
            origins=None if verified.origins is None else _copy(verified.origins, host_origins),
        )
        self._next = (self._next + 1) % len(self._places)
        done.record(self._stream)
        return PendingOutput(on_host, rows, done)

    def _copy_scores(self, scores: TokenScores) -> TokenScores:
        """The first to come allocate the memory of their place."""
        tensors, num_tokens = scores.tensors(), scores.logprobs.numel()
        if not self._score_places[self._next]:
            self._score_places[self._next] = [
                _pinned(tensor.dtype, self._max_tokens * tensor.numel() // num_tokens)
                for tensor in tensors
            ]
        return TokenScores(*map(_copy, tensors, self._score_places[self._next]))


def _to_pinned(scores: TokenScores) -> TokenScores:
    return TokenScores(
        *(_copy(tensor, _pinned(tensor.dtype, tensor.numel())) for tensor in scores.tensors())
    )


def _pinned(dtype: torch.dtype, num_values: int) -> Tensor:
    return torch.zeros(num_values, dtype=dtype, pin_memory=True)


def _copy(values: Tensor, memory: Tensor) -> Tensor:
    """Copies to the beginning of `memory`; a view of it."""
    return memory[: values.numel()].view(values.shape).copy_(values, non_blocking=True)
