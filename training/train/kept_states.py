"""Owns training from states that the target is asked for once: packed rows that stay on the device
with its aux hidden states and its likeliest tokens, and the trainer that draws from them.

R: rows, L: row length, H: hidden size, B: rows of a batch, Q: anchors of a row, k: likely tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from training.data.draft_data import Example, PackPlan, collate, pack_rows
from training.evaluate.acceptance import tap
from training.heads.linear_loss import linear_loss
from training.heads.unroll import STEP_DECAY, PackedBatch, take, unroll_states
from training.train.head_trainer import Trainer, fast_passes

NUM_LIKELY = 12
_ROWS = 16  # that the target reads at once
_SCORED = 4096  # positions whose logits are sorted at once


@dataclass(frozen=True)
class KeptRows:
    """Rows and what the target made of them; `anchors` of `packed` are empty.

    packed:     of all rows
    can_anchor: [R, L] bool, where drafting may start
    aux:        [R, L, 3H] tapped states
    likely_ids: [R, L, k] int32, the target's likeliest next tokens, at and behind anchors
    likely:     [R, L, k], their probabilities, of sum 1
    """

    packed: PackedBatch
    can_anchor: Tensor
    aux: Tensor
    likely_ids: Tensor
    likely: Tensor

    def __len__(self) -> int:
        return len(self.aux)

    def batch(self, rows: Tensor, num_anchors: int, random: torch.Generator) -> KeptRows:
        """Some of the rows [B], each with anchors drawn anew: all, where it has so few."""
        can_anchor = self.can_anchor[rows]
        drawn = torch.rand(can_anchor.shape, generator=random, device=can_anchor.device)
        drawn, places = drawn.masked_fill(~can_anchor, math.inf).sort(dim=1)
        mask = drawn[:, :num_anchors].isfinite()
        anchors = places[:, :num_anchors].masked_fill(~mask, 0)
        packed = self.packed
        chosen = PackedBatch(
            packed.input_ids[rows].long(),
            packed.position_ids[rows].long(),
            packed.document_ids[rows],
            anchors,
            mask,
        )
        return KeptRows(
            chosen, can_anchor, self.aux[rows], self.likely_ids[rows], self.likely[rows]
        )


@torch.no_grad()
def keep_states(
    target: PreTrainedModel, examples: list[Example], pack: PackPlan, aux_layers: tuple[int, ...]
) -> KeptRows:
    """The examples in rows, in an order that is always the same."""
    order = np.random.default_rng(len(examples)).permutation(len(examples))
    rows = list(pack_rows(examples, pack.row_len, order))
    parts = []
    for begin in tqdm(range(0, len(rows), _ROWS), desc="states", unit="batch", mininterval=2):
        chosen = np.random.default_rng(begin)
        batch = collate(rows[begin : begin + _ROWS], pack, chosen).to(target.device)
        with fast_passes(target.device):
            parts.append(_states(target, batch, aux_layers))
    packed = PackedBatch(*_joined([part.packed for part in parts], PackedBatch))
    return KeptRows(packed, *_joined(parts, KeptRows))


def _joined(parts: list[Any], kind: type) -> list[Tensor]:
    """Each of the tensors that things of a dataclass have, of all parts."""
    found = ([getattr(part, field.name) for part in parts] for field in fields(kind))
    return [torch.cat(some) for some in found if isinstance(some[0], Tensor)]


def _states(target: PreTrainedModel, batch: PackedBatch, aux_layers: tuple[int, ...]) -> KeptRows:
    aux, logits = tap(target, batch, aux_layers)
    can_anchor = torch.zeros_like(batch.input_ids, dtype=torch.bool)
    rows, column = batch.anchor_mask.nonzero(as_tuple=True)
    can_anchor[rows, batch.anchors[rows, column]] = True
    scored = can_anchor.roll(1, 1)
    shape = (*can_anchor.shape, min(NUM_LIKELY, logits.shape[-1]))
    likely_ids = torch.zeros(shape, dtype=torch.int32, device=aux.device)
    likely = torch.zeros(shape, dtype=aux.dtype, device=aux.device)
    for some in scored.nonzero().split(_SCORED):
        at = tuple(some.T)
        best = logits[at].topk(shape[-1], dim=-1)
        likely_ids[at] = best.indices.int()
        likely[at] = best.values.float().softmax(-1).to(aux.dtype)
    none = torch.zeros(len(aux), 0, dtype=torch.int64, device=aux.device)
    packed = PackedBatch(
        batch.input_ids.int(), batch.position_ids.int(), batch.document_ids.int(), none, none
    )
    return KeptRows(packed, can_anchor, aux.to(likely.dtype), likely_ids, likely)


class KeptTrainer(Trainer):
    """Trains a head that shares the target's output matrix. plan.num_anchors: anchors of a row that
    are trained at a time"""

    def batches(self, examples: list[Example]) -> Iterator[Any]:
        plan = self.plan
        pack = PackPlan(plan.row_len, plan.num_rows, plan.prompt_rate)
        return self._drawn(keep_states(self.target, examples, pack, self.head.config.aux_layers))

    def _drawn(self, kept: KeptRows) -> Iterator[KeptRows]:
        plan: Any = self.plan
        device = self.target.device
        size = min(plan.num_rows, len(kept))
        number = self.step
        while True:
            epoch, place = divmod(number, len(kept) // size)
            order = np.random.default_rng((plan.seed, epoch)).permutation(len(kept))
            rows = torch.from_numpy(order[place * size : (place + 1) * size]).to(device)
            random = torch.Generator(device).manual_seed(plan.seed + number)
            yield kept.batch(rows, plan.num_anchors, random)
            number += 1

    def loss(self, batch: Any) -> Tensor:
        packed, plan = batch.packed, self.plan
        embedding = self.target.get_input_embeddings().weight
        states = unroll_states(self.head, batch.aux, embedding, packed, plan.unroll_steps)
        wanted, shares = zip(
            *(_wanted(batch, step, plan.text_weight) for step in range(len(states))), strict=True
        )
        return linear_loss(
            torch.cat([x.flatten(0, 1) for x in states]),
            self._output,
            torch.cat(wanted),
            torch.cat(shares),
        )

    @cached_property
    def _output(self) -> Tensor:
        dtype = torch.bfloat16 if self.target.device.type == "cuda" else torch.float32
        return self.head.output.to(dtype)


def _wanted(batch: KeptRows, step: int, text_weight: float) -> tuple[Tensor, Tensor]:
    """What a step is to draft: the target's likely tokens and the text's, [B·Q, k + 1] ids and
    their shares of the loss, as in `unroll_loss`."""
    packed = batch.packed
    index, _ = packed.ahead(1 + step)
    text, inside = packed.ahead(2 + step)
    ids = take(batch.likely_ids, index)
    spoken = packed.input_ids.gather(1, text)[..., None]
    weight = STEP_DECAY**step * inside / inside.sum().clamp(min=1)
    shares = torch.cat(
        (
            (1 - text_weight) * take(batch.likely, index).float(),
            torch.full_like(spoken, text_weight, dtype=torch.float32),
        ),
        dim=-1,
    )
    return (
        torch.cat((ids.long(), spoken), dim=-1).flatten(0, 1),
        (shares * weight[..., None]).flatten(0, 1),
    )
