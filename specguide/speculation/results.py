"""Owns how an iteration's results come to the host: through a ring of pinned memory, with an event
for each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.batch import StepOutput, TokenScores
from specguide.kernels.shared_memory import mapped
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
    num_drafts:   int32 [B], how many were verified where `drafts` has but some of them: of a tree
                  those on the accepted path
    """

    tokens: Tensor
    num_accepted: Tensor
    drafts: Tensor
    scores: TokenScores | None
    failures: Failures
    prompt_scores: TokenScores | None = None
    origins: Tensor | None = None
    num_drafts: Tensor | None = None


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
        rows = list(self.rows)
        verified = self.verified
        scores, origins = verified.scores, verified.origins
        num_drafts = verified.num_drafts
        return StepOutput(
            tokens=verified.tokens[rows],
            num_tokens=verified.num_accepted[rows] + 1,
            drafts=verified.drafts[rows],
            scores=None if scores is None else scores.map(lambda tensor: tensor[rows]),
            prompt_scores=verified.prompt_scores,
            failures=verified.failures,
            origins=None if origins is None else origins[rows],
            num_drafts=None if num_drafts is None else num_drafts[rows],
        )


class _Place:
    """Memory of one iteration's results, int32 [num_values] and uint8 [num_origins], and the event
    behind them. The device writes the former over the bus: copies are slower to begin."""

    def __init__(self, num_values: int, num_origins: int, device: torch.device) -> None:
        self._values = _pinned(torch.int32, num_values)
        self._on_bus = mapped(self._values, device)
        self.origins = _pinned(torch.uint8, num_origins)
        self.done = torch.cuda.Event()

    def write(self, *tensors: Tensor) -> Sequence[Tensor]:
        """Write, in one kernel, tensors int32 [B, …]; as the host will find them."""
        widths = [tensor.shape[1] for tensor in tensors]
        shape = len(tensors[0]), sum(widths)
        torch.cat(tensors, dim=1, out=self._on_bus[: shape[0] * shape[1]].view(shape))
        return self._values[: shape[0] * shape[1]].view(shape).split(widths, dim=1)


class ResultRing:
    """Brings results to the host in the order of `stream`; without one they are on the host
    already.

    depth: iterations that may be under way at once
    """

    def __init__(
        self, depth: int, max_batch_size: int, num_nodes: int, stream: torch.cuda.Stream | None
    ) -> None:
        self._stream = stream
        self._next = 0
        self._max_tokens = max_batch_size * num_nodes
        num_drafts = self._max_tokens - max_batch_size
        num_values = self._max_tokens + 2 * max_batch_size + num_drafts
        self._places = (
            []
            if stream is None
            else [_Place(num_values, num_drafts, stream.device) for _ in range(depth)]
        )
        self._score_places: list[list[Tensor]] = [[] for _ in self._places]

    def put(self, verified: VerifyOutput, rows: Sequence[int]) -> PendingOutput:
        """The batch's are `rows` of what was verified, in order."""
        if self._stream is None:
            return PendingOutput(verified, rows, None)
        place = self._places[self._next]
        counts = [verified.num_accepted]
        if verified.num_drafts is not None:
            counts.append(verified.num_drafts)
        tokens, drafts, *counted = place.write(
            verified.tokens, verified.drafts, *(count[:, None] for count in counts)
        )
        on_host = VerifyOutput(
            tokens=tokens,
            num_accepted=counted[0][:, 0],
            drafts=drafts,
            scores=None if verified.scores is None else self._copy_scores(verified.scores),
            failures=verified.failures,
            prompt_scores=verified.prompt_scores and _to_pinned(verified.prompt_scores),
            origins=None if verified.origins is None else _copy(verified.origins, place.origins),
            num_drafts=counted[1][:, 0] if counted[1:] else None,
        )
        self._next = (self._next + 1) % len(self._places)
        place.done.record(self._stream)
        return PendingOutput(on_host, rows, place.done)

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
    return scores.map(lambda tensor: _copy(tensor, _pinned(tensor.dtype, tensor.numel())))


def _pinned(dtype: torch.dtype, num_values: int) -> Tensor:
    return torch.zeros(num_values, dtype=dtype, pin_memory=True)


def _copy(values: Tensor, memory: Tensor) -> Tensor:
    """Copies to the beginning of `memory`; a view of it."""
    return memory[: values.numel()].view(values.shape).copy_(values, non_blocking=True)
