"""Owns how an iteration's results reach the host: through a ring of pinned memory, with an event
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
    """The results of a verification, on the device.

    tokens:       int32 [B, N], the token that the target chooses after each node; the first
                  num_accepted + 1 count
    num_accepted: int32 [B], number of accepted drafts; -1: the slot was held
    drafts:       int32 [B, N - 1], the drafts that were verified, -1 for none
    scores:       scores of `tokens`, where a request asks for them
    failures:     failures of logits processors
    prompt_scores: as in StepOutput
    origins:      uint8 [B, N - 1], who proposed each verified draft, as in batch.DRAFT_ORIGINS;
                  None: the drafter proposed all
    num_drafts:   int32 [B], how many drafts were verified, where `drafts` has only those on a
                  tree's accepted path; None: `drafts` has all
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
    """The output of an iteration that may still run. It must be read before a later iteration takes
    its place in the ring."""

    verified: VerifyOutput
    rows: Sequence[int]
    done: torch.cuda.Event | None

    def result(self) -> StepOutput:
        """Wait for the iteration, and return its output. Raises torch's error where the device
        failed."""
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
    """Memory for one iteration's results, int32 [num_values] and uint8 [num_origins], and the event
    after them. A kernel writes the former over the bus, since a copy takes longer to start."""

    def __init__(self, num_values: int, num_origins: int, device: torch.device) -> None:
        self._values = _pinned(torch.int32, num_values)
        self._on_bus = mapped(self._values, device)
        self.origins = _pinned(torch.uint8, num_origins)
        self.done = torch.cuda.Event()

    def write(self, *tensors: Tensor) -> Sequence[Tensor]:
        """Write tensors int32 [B, …] in one kernel. Returns the same tensors in host memory."""
        widths = [tensor.shape[1] for tensor in tensors]
        shape = len(tensors[0]), sum(widths)
        torch.cat(tensors, dim=1, out=self._on_bus[: shape[0] * shape[1]].view(shape))
        return self._values[: shape[0] * shape[1]].view(shape).split(widths, dim=1)


class ResultRing:
    """Brings results to the host in the order of `stream`. Without a stream they are on the host
    already.

    depth: number of iterations that may be under way at once
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
        """Start to bring results to the host. `rows` are the batch's rows in them, in order."""
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
        """Copy scores to the host. The first scores of a place allocate its memory."""
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
    """Copy values to the beginning of `memory`. Returns a view of the copy."""
    return memory[: values.numel()].view(values.shape).copy_(values, non_blocking=True)
