"""Owns what an iteration asks of a drafter that runs a model."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from specguide.kernels import LogitsShare
from specguide.speculation.forward_input import ForwardInput


class Drafter(Protocol):
    """Proposes the tokens after the golden one, each from a pass of its own.

    aux_layers:      layers of the target whose input it reads
    target_ids:      int32 [draft_vocab_size], the target id of each draft id; None where they are
                     the same
    position_offset: where the pass over a token stands: 0 at the token's own position, -1 at the
                     one before
    """

    @property
    def aux_layers(self) -> tuple[int, ...]: ...

    @property
    def target_ids(self) -> Tensor | None: ...

    @property
    def position_offset(self) -> int: ...

    def refresh(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The keys of the inputs' tokens, once the target has said what follows each node; as
        `ForwardPasses.refresh`.

        aux_hidden_states: [T, …] of the inputs' tokens, the target's layers `aux_layers`
        """

    def step(self, inputs: ForwardInput, features: Tensor) -> tuple[Tensor, Tensor]:
        """One pass over drafted tokens that continue the features [T, hidden]; as `refresh`, [T,
        hidden]."""

    def draft_logits(self, normed: Tensor) -> Tensor:
        """[n, hidden] → [n, draft_vocab_size]."""


@runtime_checkable
class ShareDrafter(Drafter, Protocol):
    """Its output matrix may be cut among ranks."""

    def draft_share(self, normed: Tensor) -> Tensor | LogitsShare:
        """As `draft_logits`, or those of this rank's tokens, where ranks can choose together."""


@runtime_checkable
class StoringDrafter(Drafter, Protocol):
    """Stores keys without the rest of a pass."""

    def store(self, inputs: ForwardInput, aux_hidden_states: Tensor) -> None:
        """As `refresh` over chunks of prompts that each know what follows their last token."""


class BlockDrafter(Drafter, Protocol):
    """Proposes all tokens after the golden one in one pass; `refresh` is for prompts alone."""

    def propose(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
        num_drafts: int,
    ) -> Tensor:
        """As `refresh`; what `draft_logits` takes of each draft, [num_drafts, B, hidden]."""
