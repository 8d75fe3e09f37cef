"""Owns Drafter, the interface between an iteration and a drafter that runs a model."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from specguide.kernels import LogitsShare
from specguide.speculation.forward_input import ForwardInput


class Drafter(Protocol):
    """Proposes the tokens after the golden token, each in its own pass.

    aux_layers:      layers of the target whose input it reads
    target_ids:      int32 [draft_vocab_size], the target id of each draft id; None where they are
                     the same
    position_offset: the position at which the drafter reads a token: 0 is the token's own position,
                     -1 the one before
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
        """Compute the keys of the inputs' tokens, once the target has chosen a token after each
        node. See `ForwardPasses.refresh`.

        aux_hidden_states: [T, …], hidden states of the inputs' tokens at the layers `aux_layers`
        """

    def step(self, inputs: ForwardInput, features: Tensor) -> tuple[Tensor, Tensor]:
        """One pass over drafted tokens that continue the features [T, hidden]. Returns the same as
        `refresh`, [T, hidden] each."""

    def draft_logits(self, normed: Tensor) -> Tensor:
        """Logits of the next draft: [n, hidden] → [n, draft_vocab_size]."""


@runtime_checkable
class ShareDrafter(Drafter, Protocol):
    """A drafter whose output matrix may be divided among ranks."""

    def draft_share(self, normed: Tensor) -> Tensor | LogitsShare:
        """As `draft_logits`, or only the logits of this rank's share of tokens, where ranks can
        choose the greatest together."""


@runtime_checkable
class StoringDrafter(Drafter, Protocol):
    """A drafter that can store keys without the rest of a pass."""

    def store(self, inputs: ForwardInput, aux_hidden_states: Tensor) -> None:
        """As `refresh`, but only stores keys, for chunks of prompts whose next token is known."""


class BlockDrafter(Drafter, Protocol):
    """Proposes all tokens after the golden token in one pass; `refresh` is only for prompts."""

    def propose(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
        num_drafts: int,
    ) -> Tensor:
        """As `refresh`, but returns the input of `draft_logits` for each draft, [num_drafts, B,
        hidden]."""
