"""Owns the adjustments of logits: the settings and output counts of each slot's request, and how
they change its logits.

Only verification uses them, since it decides what is output; the drafter's logits stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.batch import Adjustment
from specguide.kernels import BitmaskRows, apply_bitmask
from specguide.sampling.adjustment import MAX_SEQUENCE_LEN, MAX_SEQUENCES

_ANY, _NONE = -2, -1


@dataclass(frozen=True, eq=False)
class SlotAdjustments:
    """The slots' adjustments at fixed addresses. S slots, V tokens, M forbidden sequences of at
    most L tokens.

    bias:       float32 [S, V], added to the logits; -inf for tokens that are never output
    is_end:     bool [S, V], tokens that are not output before first_end
    first_end:  int64 [S], the first position that may have one of them
    in_prompt:  bool [S, V], the prompt has the token
    counts:     int32 [S, V], how often each token has been output
    last_ids:   int32 [S, L - 1], the last tokens of the output, in order; -1 before its beginning
    before_bad: int32 [S, M, L - 1], each sequence without its last token, aligned to the right; -2
                stands for any token
    bad_ids:    int64 [S, M], the last token of each sequence, which is forbidden behind the others;
                -1 where there is no sequence
    repetition, frequency, presence: float32 [S], penalties
    """

    bias: Tensor
    is_end: Tensor
    first_end: Tensor
    in_prompt: Tensor
    counts: Tensor
    last_ids: Tensor
    before_bad: Tensor
    bad_ids: Tensor
    repetition: Tensor
    frequency: Tensor
    presence: Tensor

    @classmethod
    def neutral(cls, num_slots: int, vocab_size: int, device: torch.device) -> SlotAdjustments:
        """Slots whose logits stay as they are. They take 10 bytes per slot and token."""

        def full(value: float, dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.full((num_slots, *shape), value, dtype=dtype, device=device)

        return cls(
            bias=full(0, torch.float32, vocab_size),
            is_end=full(0, torch.bool, vocab_size),
            first_end=full(0, torch.int64),
            in_prompt=full(0, torch.bool, vocab_size),
            counts=full(0, torch.int32, vocab_size),
            last_ids=full(_NONE, torch.int32, MAX_SEQUENCE_LEN - 1),
            before_bad=full(_ANY, torch.int32, MAX_SEQUENCES, MAX_SEQUENCE_LEN - 1),
            bad_ids=full(_NONE, torch.int64, MAX_SEQUENCES),
            repetition=full(1, torch.float32),
            frequency=full(0, torch.float32),
            presence=full(0, torch.float32),
        )

    def clear(self, slot: int | slice) -> None:
        """Reset one slot, or several: their logits stay as they are."""
        for name, value in (
            ("bias", 0),
            ("is_end", 0),
            ("first_end", 0),
            ("in_prompt", 0),
            ("counts", 0),
            ("last_ids", _NONE),
            ("before_bad", _ANY),
            ("bad_ids", _NONE),
            ("repetition", 1),
            ("frequency", 0),
            ("presence", 0),
        ):
            getattr(self, name)[slot] = value

    def write(
        self,
        slot: int,
        adjustment: Adjustment,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
    ) -> None:
        """Write the adjustment of a request that has these tokens into its slot."""
        self.clear(slot)
        if adjustment.allowed_ids is not None:
            self.bias[slot] = float("-inf")
            self.bias[slot, self._ids(adjustment.allowed_ids)] = 0
        self.bias[slot, self._ids(adjustment.forbidden_ids)] = float("-inf")
        self.bias[slot, self._ids(adjustment.bias)] += torch.tensor(
            list(adjustment.bias.values()), dtype=torch.float32, device=self.bias.device
        )
        self.is_end[slot, self._ids(adjustment.end_ids)] = True
        self.first_end[slot] = min(
            len(prompt_ids) + adjustment.min_tokens, torch.iinfo(torch.int64).max
        )
        self.in_prompt[slot, self._ids(prompt_ids)] = True
        self.counts[slot] = torch.bincount(self._ids(output_ids), minlength=self.counts.shape[1])
        last = output_ids[-self.last_ids.shape[1] :]
        if last:
            self.last_ids[slot, -len(last) :] = self._ids(last).int()
        for row, sequence in enumerate(adjustment.forbidden_sequences):
            self.before_bad[slot, row, 1 - len(sequence) :] = self._ids(sequence[:-1]).int()
            self.bad_ids[slot, row] = sequence[-1]
        self.repetition[slot] = adjustment.repetition
        self.frequency[slot], self.presence[slot] = adjustment.frequency, adjustment.presence

    def take(self, slots: Tensor, target_tokens: Tensor, num_accepted: Tensor) -> None:
        """Count the tokens that a verification has output; a slot that was held has output none.

        slots:         int64 [B], distinct
        target_tokens: int32 [B, N], of which the first `num_accepted` int32 [B] + 1 are new
        """
        places = torch.arange(target_tokens.shape[1], device=slots.device)
        is_new = (places <= num_accepted[:, None]) & (target_tokens >= 0)
        index = slots[:, None] * self.counts.shape[1] + target_tokens.clamp(min=0)
        self.counts.view(-1).scatter_add_(0, index.flatten(), is_new.flatten().int())
        last = self.last_ids.shape[1]
        places = torch.arange(last, device=slots.device) + num_accepted[:, None] + 1
        self.last_ids[slots] = torch.cat([self.last_ids[slots], target_tokens], dim=1).gather(
            1, places.long()
        )

    def _ids(self, values: Iterable[int]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.int64, device=self.bias.device)


def chain_paths(drafts: Tensor) -> Tensor:
    """The drafts on the path to each node of chains. drafts: int32 [B, N - 1]. Returns int32 [B, N,
    N - 1], -1 past the end of a path."""
    num_nodes = drafts.shape[1] + 1
    is_on_path = torch.ones(num_nodes, num_nodes - 1, dtype=torch.bool, device=drafts.device).tril(
        -1
    )
    return drafts[:, None].expand(-1, num_nodes, -1).masked_fill(~is_on_path, _NONE)


def adjust_logits(
    logits: Tensor,
    slots: Tensor,
    paths: Tensor,
    start: Tensor,
    adjustments: SlotAdjustments,
    rows: BitmaskRows | None,
) -> Tensor:
    """Logits after each node with the adjustments of the slots' requests, as if the drafts on the
    node's path had been output.

    The order is vLLM's: allowed tokens and bad words, bias, end tokens, repetition, frequency,
    presence. Where a grammar allows only end tokens, they may come before first_end.

    logits:       [B · N, V], floating
    slots, start: int64 [B]; start is the position of the first node
    paths:        int32 [B, N, D], the drafts on the path to each node in order; -1: none
    rows:         the grammar's bitmask rows, one for each row of logits; None: all are free
    Returns float32 [B · N, V]; tokens that a guided row forbids have -inf. Otherwise the row of a
    slot without adjustments has the values of `logits`. Can be captured in a CUDA graph.
    """
    num_nodes = paths.shape[1]
    adjusted = logits.float().view(len(slots), num_nodes, -1) + adjustments.bias[slots][:, None]
    path_lens = (paths >= 0).sum(-1)
    _forbid_bad_words(adjusted, adjustments, slots, paths, path_lens)
    is_end = adjustments.is_end[slots][:, None]
    is_early = start[:, None] + 1 + path_lens < adjustments.first_end[slots][:, None]
    if rows is not None:
        apply_bitmask(adjusted.flatten(0, 1), rows)
        is_guided = (rows.guided[rows.ids] != 0).view(len(slots), num_nodes)
        is_early &= ~is_guided | ((adjusted > float("-inf")) & ~is_end).any(-1)
    adjusted.masked_fill_(is_end & is_early[:, :, None], float("-inf"))
    _penalise(adjusted, adjustments, slots, paths)
    return adjusted.flatten(0, 1)


def _forbid_bad_words(
    adjusted: Tensor, adjustments: SlotAdjustments, slots: Tensor, paths: Tensor, path_lens: Tensor
) -> None:
    """Write -inf into adjusted [B, N, V] for the last token of each forbidden sequence whose other
    tokens end the path."""
    last_ids, bad_ids = adjustments.last_ids[slots], adjustments.bad_ids[slots][:, None]
    output = torch.cat([last_ids[:, None].expand(-1, paths.shape[1], -1), paths], dim=2)
    places = path_lens[:, :, None] + torch.arange(last_ids.shape[1], device=slots.device)
    path = output.gather(2, places)[:, :, None]  # [B, N, 1, L - 1]
    before = adjustments.before_bad[slots][:, None]
    is_bad = ((before == path) | (before == _ANY)).all(-1) & (bad_ids >= 0)  # [B, N, M]
    penalty = torch.zeros_like(is_bad, dtype=torch.float32).masked_fill_(is_bad, float("-inf"))
    adjusted.scatter_add_(2, bad_ids.clamp(min=0).expand_as(is_bad), penalty)


def _penalise(adjusted: Tensor, adjustments: SlotAdjustments, slots: Tensor, paths: Tensor) -> None:
    """Apply the penalties to adjusted [B, N, V], in place."""
    counts = adjustments.counts[slots][:, None].repeat(1, adjusted.shape[1], 1)
    counts.scatter_add_(2, paths.clamp(min=0).long(), (paths >= 0).int())
    is_output = counts > 0
    factor = torch.where(
        is_output | adjustments.in_prompt[slots][:, None],
        adjustments.repetition[slots][:, None, None],
        1.0,
    )
    is_positive = adjusted > 0
    adjusted.div_(factor.masked_fill(~is_positive, 1)).mul_(factor.masked_fill(is_positive, 1))
    adjusted.sub_(counts * adjustments.frequency[slots][:, None, None])
    adjusted.sub_(is_output * adjustments.presence[slots][:, None, None])
