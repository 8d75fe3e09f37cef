"""Owns training-time test (EAGLE-3, arXiv 2503.01840): packed rows, a head's steps over its own
features, their loss.

H: hidden size, V: target vocabulary, D: draft vocabulary, B: rows, L: row length, Q: anchors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from training.heads.head_layers import Attention, HeadConfig

STEP_DECAY = 0.8


class TrainedHead(Protocol):
    """What training asks of a draft head; `Eagle3Head` says what each name means."""

    config: HeadConfig
    t2d: Tensor

    @property
    def self_attn(self) -> Attention: ...

    @property
    def draft_ids(self) -> Tensor: ...

    def features(self, aux: Tensor) -> Tensor: ...

    def enter(self, embeds: Tensor, feature: Tensor) -> tuple[Tensor, Tensor]: ...

    def leave(self, residual: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]: ...

    def logits(self, normed: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class PackedBatch:
    """Documents packed into rows; a row's documents do not see each other and each starts at
    position 0.

    input_ids, position_ids, document_ids: [B, L] int64; document_ids is -1 on padding
    anchors:     [B, Q] int64, row indices t at which drafting starts: feature t, golden token t+1
    anchor_mask: [B, Q] bool, False where `anchors` is padding (index 0)
    """

    input_ids: Tensor
    position_ids: Tensor
    document_ids: Tensor
    anchors: Tensor
    anchor_mask: Tensor

    def to(self, device: torch.device) -> PackedBatch:
        return PackedBatch(
            *(
                getattr(self, name).to(device, non_blocking=True)
                for name in self.__dataclass_fields__
            )
        )

    def visible_from_anchors(self) -> Tensor:
        """[B, Q, L] bool: key j is visible to an anchor when it is not later and of the same
        document."""
        place = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)
        document = self.document_ids.gather(1, self.anchors)
        return (place <= self.anchors[..., None]) & (
            document[..., None] == self.document_ids[:, None, :]
        )

    def ahead(self, distance: int) -> tuple[Tensor, Tensor]:
        """Row indices `distance` tokens after the anchors, and where both lie in one document; both
        [B, Q]."""
        index = self.anchors + distance
        inside = index < self.input_ids.shape[1]
        index = index.clamp(max=self.input_ids.shape[1] - 1)
        same = self.document_ids.gather(1, index) == self.document_ids.gather(1, self.anchors)
        return index, inside & same & self.anchor_mask


def take(states: Tensor, index: Tensor) -> Tensor:
    """states [B, L, X] at index [B, Q] → [B, Q, X]."""
    return states.gather(1, index[..., None].expand(-1, -1, states.shape[-1]))


def unroll(
    head: TrainedHead, aux: Tensor, embedding: Tensor, batch: PackedBatch, num_steps: int
) -> list[Tensor]:
    """Draft logits of `unroll_states`, each [B, Q, D]."""
    return [head.logits(x) for x in unroll_states(head, aux, embedding, batch, num_steps)]


def unroll_states(
    head: TrainedHead, aux: Tensor, embedding: Tensor, batch: PackedBatch, num_steps: int
) -> list[Tensor]:
    """What `num_steps` steps from every anchor at once give to the head's `logits`, each [B, Q,
    H]; step s (from 0) at anchor t reads token t+1+s and scores token t+2+s.

    aux:       [B, L, …] the target's tapped states
    embedding: [V, H] the target's token embedding

    Step 0 takes its feature from the target. A later step takes it from the head's own last output,
    and sees the step-0 keys up to its anchor and its own keys of steps 1 … s: what a drafting
    loop's cache would hold.
    """
    attention = head.self_attn
    features = head.features(aux)
    next_ids = torch.cat((batch.input_ids[:, 1:], batch.input_ids[:, -1:]), dim=1)
    _, x = head.enter(F.embedding(next_ids, embedding), features)
    keys, values = attention.keys_values(x, batch.position_ids)
    mask = batch.visible_from_anchors()
    start = batch.position_ids.gather(1, batch.anchors)
    own = torch.eye(batch.anchors.shape[1], dtype=torch.bool, device=mask.device).expand(
        len(mask), -1, -1
    )
    feature = take(features, batch.anchors)
    states = []
    for step in range(num_steps):
        ids = batch.input_ids.gather(1, batch.ahead(1 + step)[0])
        residual, x = head.enter(F.embedding(ids, embedding), feature)
        if step:
            own_keys, own_values = attention.keys_values(x, start + step)
            keys, values = (
                torch.cat((keys, own_keys), dim=2),
                torch.cat((values, own_values), dim=2),
            )
            mask = torch.cat((mask, own), dim=2)
        attended = attention.attend(attention.queries(x, start + step), keys, values, mask)
        feature, normed = head.leave(residual, attended)
        states.append(normed)
    return states


def unroll_loss(
    head: TrainedHead,
    logits: list[Tensor],
    target_logits: Tensor,
    batch: PackedBatch,
    text_weight: float = 0.0,
) -> Tensor:
    """Soft cross-entropy against the target's distribution over the draft vocabulary, steps weighed
    by 0.8^s; scalar.

    target_logits: [B, L, V]. Positions whose most likely target token lies outside the draft
                   vocabulary teach
    nothing, as in the published training, and neither does the last token of a document.
    text_weight:   share of the cross-entropy against the text itself, where that is in the draft
                   vocabulary: under a grammar it need not be what the target finds likely
    """
    draftable = head.t2d[target_logits.argmax(-1)]
    restricted = target_logits[..., head.draft_ids]
    draft_of = head.t2d.cumsum(0) - 1
    total = torch.zeros((), device=target_logits.device)
    for step, scores in enumerate(logits):
        index, _ = batch.ahead(1 + step)
        next_index, inside = batch.ahead(2 + step)
        likelihood = scores.float().log_softmax(-1)
        wanted = take(restricted, index).float().softmax(-1)
        loss = _mean(-(wanted * likelihood).sum(-1), inside & draftable.gather(1, index))
        if text_weight:
            text = batch.input_ids.gather(1, next_index)
            known = inside & head.t2d[text]
            spoken = likelihood.gather(2, draft_of[text].clamp(min=0)[..., None])[..., 0]
            loss = (1 - text_weight) * loss + text_weight * _mean(-spoken, known)
        total = total + STEP_DECAY**step * loss
    return total


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    """Over what is counted; 0 where nothing is."""
    return (values * counted).sum() / counted.sum().clamp(min=1)
