"""Owns drafting with a head that continues the target's hidden states.

The head has its own keys and values, in pages that the target's block table addresses. After
`refresh`, these exist for every verified token for which they are needed, whatever was drafted
before. So a shared page holds them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from specguide.cache import KVCache
from specguide.kernels import LogitsShare, rows_behind
from specguide.kernels.attention import OutputRows, PassContext
from specguide.layers.lm_head import LmHead
from specguide.slots import SlotTable
from specguide.speculation.forward_input import ForwardInput


class DraftHead(Protocol):
    """A head that continues the target's hidden states; `Eagle3Head` describes the members."""

    @property
    def aux_layers(self) -> tuple[int, ...]: ...

    @property
    def target_ids(self) -> Tensor | None: ...

    @property
    def lm_head(self) -> LmHead: ...

    def fuse(self, aux_hidden_states: Tensor) -> Tensor: ...

    def forward(
        self,
        input_ids: Tensor,
        features: Tensor,
        context: PassContext,
        cache: KVCache,
        outputs: OutputRows | None = None,
    ) -> tuple[Tensor, Tensor]: ...

    def store(
        self, input_ids: Tensor, features: Tensor, context: PassContext, cache: KVCache
    ) -> None: ...

    def draft_logits(self, normed: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class HeadDrafter:
    """A draft head: at position p it reads the hidden state there and the token at p + 1."""

    head: DraftHead
    cache: KVCache
    position_offset: int = -1

    @property
    def aux_layers(self) -> tuple[int, ...]:
        return self.head.aux_layers

    @property
    def target_ids(self) -> Tensor | None:
        return self.head.target_ids

    def refresh(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
    ) -> tuple[Tensor, Tensor]:
        features, normed = self.head.forward(
            inputs.next_ids(target_tokens),
            self.head.fuse(aux_hidden_states),
            inputs.context,
            self.cache,
            inputs.outputs,
        )
        if inputs.outputs is not None:
            return normed, features
        return rows_behind(normed, features, inputs.first_node, num_accepted)

    def store(self, inputs: ForwardInput, aux_hidden_states: Tensor) -> None:
        features = self.head.fuse(aux_hidden_states)
        self.head.store(inputs.next_ids(inputs.unknown), features, inputs.context, self.cache)

    def step(self, inputs: ForwardInput, features: Tensor) -> tuple[Tensor, Tensor]:
        features, normed = self.head.forward(inputs.input_ids, features, inputs.context, self.cache)
        return normed, features

    def draft_logits(self, normed: Tensor) -> Tensor:
        return self.head.draft_logits(normed)

    def draft_share(self, normed: Tensor) -> Tensor | LogitsShare:
        return self.head.lm_head.forward_share(normed)


def with_head(head: Any, cache: KVCache | None, table: SlotTable) -> HeadDrafter:
    """See `DrafterSpec.propose`."""
    assert cache is not None
    return HeadDrafter(head, cache)
