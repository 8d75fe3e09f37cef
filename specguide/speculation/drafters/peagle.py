"""Owns drafting with a P-EAGLE head: an EAGLE-3 head that proposes all drafts in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Eagle3Head
from specguide.slots import SlotTable
from specguide.speculation.blocks import Blocks
from specguide.speculation.drafters.base import DrafterSpec, DraftTarget
from specguide.speculation.drafters.heads import HeadDrafter
from specguide.speculation.forward_input import ForwardInput, chain_input


@dataclass(frozen=True, eq=False, kw_only=True)
class ParallelHeadDrafter(HeadDrafter):
    """Behind the last known token, the head reads its mask token K - 1 times, each with a learned
    feature in place of hidden states.

    head:         a P-EAGLE head
    state:        the slots, which say where the mask tokens go
    mask_feature: [1, hidden], the feature of a mask token
    """

    head: Eagle3Head
    state: SlotTable
    mask_feature: Tensor

    def propose(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
        num_drafts: int,
    ) -> Tensor:
        """See `BlockDrafter`. Verified drafts and masks go through the head in the same pass; after
        a prefill, the masks have a pass of their own."""
        last = num_accepted.clamp(min=0)
        if inputs.is_chain:
            return self._joined(inputs, aux_hidden_states, target_tokens, last, num_drafts)
        normed, _ = self.refresh(inputs, aux_hidden_states, target_tokens, num_accepted)
        if num_drafts == 1:
            return normed[None]
        masks = torch.full_like(target_tokens, self._mask_token).expand(-1, num_drafts - 1)
        behind = chain_input(self.state, masks, inputs.start, inputs.slots, 1)
        features = self.mask_feature.expand(masks.numel(), -1)
        rest = self._forward(behind, features).unflatten(0, masks.shape)
        return torch.cat((normed[None], rest.transpose(0, 1)))

    def _joined(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        last: Tensor,
        num_drafts: int,
    ) -> Tensor:
        """One pass over each request's nodes up to the `last` accepted one, int32 [B], and over the
        masks behind it. Keys of positions from which no draft comes are not used; they are
        overwritten before they are read."""
        num_nodes = inputs.num_nodes
        last = last.long()[:, None]
        index = torch.arange(num_nodes + num_drafts - 1, device=last.device)
        known = index.clamp(max=num_nodes - 1)
        is_known = index <= last
        next_ids = inputs.next_ids(target_tokens).view(-1, num_nodes)[:, known]
        tokens = torch.where(is_known, next_ids, self._mask_token).int()
        fused = self.head.fuse(aux_hidden_states).unflatten(0, (-1, num_nodes))[:, known]
        features = torch.where(is_known[..., None], fused, self.mask_feature)
        block = chain_input(self.state, tokens, inputs.start, inputs.slots)
        normed = self._forward(block, features.flatten(0, 1)).unflatten(0, tokens.shape)
        drafted = last + index[:num_drafts]
        return normed.gather(1, drafted[..., None].expand(-1, -1, normed.shape[-1])).transpose(0, 1)

    def _forward(self, inputs: ForwardInput, features: Tensor) -> Tensor:
        _, normed = self.head.forward(inputs.input_ids, features, inputs.context, self.cache)
        return normed

    @property
    def _mask_token(self) -> int:
        assert self.head.mask_token_id is not None
        return self.head.mask_token_id


def _load(spec: SpecConfig, target: DraftTarget) -> Eagle3Head:
    if spec.model is None:
        raise InvalidParams(
            "speculation by 'peagle' needs the folder of a head, since none is shipped: "
            "SpecConfig('peagle', model=folder), on the command line --head FOLDER",
            param="spec",
        )
    head = Eagle3Head.load(spec.model, target.model, quantization=spec.quantization)
    if head.mask_token_id is None:
        raise CheckpointError(
            f"{spec.model}: holds an EAGLE-3 head without 'mask_hidden', which drafts step by step:"
            " use the method 'eagle3'"
        )
    return head


def _propose(head: Any, cache: KVCache | None, table: SlotTable) -> ParallelHeadDrafter:
    assert cache is not None
    return ParallelHeadDrafter(head=head, cache=cache, state=table, mask_feature=head.mask_feature)


DRAFTER = DrafterSpec(method_named("peagle"), load=_load, propose=_propose, drafting=Blocks)
