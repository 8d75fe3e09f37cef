"""Owns the drafters that run a model: what an iteration asks of them, for draft heads and for a
whole small model.

All have keys and values of their own, in pages that the target's page table addresses. After
`refresh` these exist for every verified token that they are needed for, whatever was drafted
before, so a page that is shared holds them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from specguide.cache import KVCache
from specguide.kernels.attention import ForwardContext
from specguide.models import Decoder
from specguide.slots import SlotTable
from specguide.speculation.query import Query, chain_query


class DraftHead(Protocol):
    """A head that continues the target's hidden states; `Eagle3Head` says what each name means."""

    @property
    def tapped_layers(self) -> tuple[int, ...]: ...

    @property
    def target_ids(self) -> Tensor | None: ...

    def fuse(self, taps: Tensor) -> Tensor: ...

    def forward(
        self, input_ids: Tensor, features: Tensor, context: ForwardContext, cache: KVCache
    ) -> tuple[Tensor, Tensor]: ...

    def draft_logits(self, normed: Tensor) -> Tensor: ...


class Drafter(Protocol):
    """Proposes the tokens after the golden one, each from a pass of its own.

    tapped_layers:   layers of the target whose input it reads
    target_ids:      int32 [draft_vocab_size], the target id of each draft id; None where they are
                     the same
    position_offset: where the pass over a token stands: 0 at the token's own position, -1 at the
                     one before
    """

    @property
    def tapped_layers(self) -> tuple[int, ...]: ...

    @property
    def target_ids(self) -> Tensor | None: ...

    @property
    def position_offset(self) -> int: ...

    def refresh(
        self, query: Query, taps: Tensor, target_tokens: Tensor, num_accepted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The keys of the query's tokens, once the target has said what follows each node; as
        `ForwardPasses.refresh`.

        taps: [T, …] of the query's tokens, the target's layers `tapped_layers`
        """

    def step(self, query: Query, features: Tensor) -> tuple[Tensor, Tensor]:
        """One pass over drafted tokens that continue the features [T, hidden]; as `refresh`, [T,
        hidden]."""

    def draft_logits(self, normed: Tensor) -> Tensor:
        """[n, hidden] → [n, draft_vocab_size]."""


@dataclass(frozen=True, eq=False)
class HeadDrafter:
    """A draft head: at position p it reads the hidden state there and the token at p + 1."""

    head: DraftHead
    cache: KVCache
    position_offset: int = -1

    @property
    def tapped_layers(self) -> tuple[int, ...]:
        return self.head.tapped_layers

    @property
    def target_ids(self) -> Tensor | None:
        return self.head.target_ids

    def refresh(
        self, query: Query, taps: Tensor, target_tokens: Tensor, num_accepted: Tensor
    ) -> tuple[Tensor, Tensor]:
        features, normed = self.head.forward(
            query.next_ids(target_tokens), self.head.fuse(taps), query.context, self.cache
        )
        last = query.first_node + num_accepted.clamp(min=0)
        return normed[last], features[last]

    def step(self, query: Query, features: Tensor) -> tuple[Tensor, Tensor]:
        features, normed = self.head.forward(query.input_ids, features, query.context, self.cache)
        return normed, features

    def draft_logits(self, normed: Tensor) -> Tensor:
        return self.head.draft_logits(normed)


@dataclass(frozen=True, eq=False)
class ModelDrafter:
    """A small model of the target's vocabulary, which reads tokens alone.

    The keys of the prompt come from the same chunks as the target's. When decoding, one pass takes
    what the target has said after each node, one position further than the target's pass: the
    tokens accepted and the golden one. So the keys of all tokens up to the golden one exist, each
    made of verified tokens only, also where all drafts were accepted and the last one never went
    through the model. What stands behind is written again before it is read.
    """

    model: Decoder
    cache: KVCache
    state: SlotTable
    tapped_layers: tuple[int, ...] = ()
    target_ids: None = None
    position_offset: int = 0

    def refresh(
        self, query: Query, taps: Tensor, target_tokens: Tensor, num_accepted: Tensor
    ) -> tuple[Tensor, Tensor]:
        if not query.is_chain:  # a prefill
            self._forward(query)
        behind = chain_query(self.state, query.said(target_tokens), query.start, query.slots, 1)
        normed = self._forward(behind)[behind.first_node + num_accepted.clamp(min=0)]
        return normed, normed

    def step(self, query: Query, features: Tensor) -> tuple[Tensor, Tensor]:
        normed = self._forward(query)
        return normed, normed

    def draft_logits(self, normed: Tensor) -> Tensor:
        return self.model.logits(normed)

    def _forward(self, query: Query) -> Tensor:
        normed, _ = self.model.forward(query.input_ids, query.context, self.cache)
        return normed
