"""Owns the forward passes of an iteration: the target's, the drafter's over the same tokens, and
the drafter's pass for each further draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from specguide.batch import ImageToEncode, StateCopy, TokenScores
from specguide.cache import KVCache, move_keys
from specguide.kernels import LogitsShare
from specguide.kernels.attention import JoinedContext, OutputRows
from specguide.models import Decoder
from specguide.sampling import score_tokens
from specguide.slots import Slots, SlotTable
from specguide.speculation.drafter import BlockDrafter, Drafter, ShareDrafter, StoringDrafter
from specguide.speculation.forward_input import ForwardInput, chain_input, tree_input
from specguide.speculation.results import VerifyOutput

_MOST_SCORED = 1 << 24
"""Most logits of prompt tokens (tokens times vocabulary) that are in memory at once."""


Beside = tuple[ForwardInput, Tensor] | None
"""Chunks of prompts, and their aux hidden states, which the drafter reads; None: no chunks."""


class ForwardPasses:
    """Runs target and drafter over the slots' caches. Without a drafter, only the target's methods
    and `store` may be called."""

    def __init__(
        self, target: Decoder, cache: KVCache, state: SlotTable, drafter: Drafter | None
    ) -> None:
        self._target, self._cache, self._state, self._drafter = target, cache, state, drafter
        self._aux_layers = drafter.aux_layers if drafter else ()

    @property
    def target_ids(self) -> Tensor | None:
        """int32 [draft_vocab_size], the target id of each draft id; None where they are the
        same."""
        return self._drafting.target_ids

    def target(
        self, inputs: ForwardInput, prompts: ForwardInput | None = None, *, has_aux: bool = True
    ) -> tuple[Tensor, Tensor, Beside]:
        """Run the target. Returns its hidden states [T, hidden], or only those of the inputs'
        `outputs`; the aux hidden states that the drafter reads, [T, …], or [T, 0] without has_aux;
        and what is left to do for `prompts`.

        prompts: chunks of prompts to compute in the same pass; the token after each is known
        """
        layers = self._aux_layers if has_aux else ()
        if prompts is None:
            hidden, features = self._target.forward(
                inputs.input_ids, inputs.context, self._cache, layers, inputs.outputs
            )
            return hidden, features, None
        num_tokens = len(inputs.input_ids)
        hidden, features = self._target.forward(
            torch.cat([inputs.input_ids, prompts.input_ids]),
            JoinedContext(inputs.context, prompts.context),
            self._cache,
            self._aux_layers,
            OutputRows(slice(0, num_tokens), inputs.context),
        )
        return hidden, features[:num_tokens], (prompts, features[num_tokens:])

    def store(self, beside: Beside) -> None:
        """Store the drafter's keys for the chunks of prompts that the target has computed."""
        drafter = self._drafter
        if beside is None or drafter is None:
            return
        if isinstance(drafter, StoringDrafter):
            drafter.store(*beside)
        else:
            unknown = beside[0].unknown
            drafter.refresh(*beside, unknown, unknown[:, 0])

    def target_logits(self, inputs: ForwardInput, hidden: Tensor) -> Tensor:
        """Logits after every node, [B · N, vocab_size]. hidden: as `target` returns it"""
        return self._target.logits(inputs.at_nodes(hidden))

    def target_share(self, inputs: ForwardInput, hidden: Tensor) -> Tensor | LogitsShare:
        """As `target_logits`, for a caller that needs only the greatest logit; so it may be this
        rank's share."""
        if self._target.ranks.size == 1:
            return self.target_logits(inputs, hidden)
        return self._target.logits_share(inputs.at_nodes(hidden))

    def score_prompts(self, inputs: ForwardInput, hidden: Tensor) -> TokenScores | None:
        """Scores of the S prompt tokens that are to be scored, [S, 1, …]; None where there are
        none.

        Logits are computed in blocks, so that a long prompt takes no more memory than a short one.
        """
        if inputs.scored is None:
            return None
        num_rows = max(1, _MOST_SCORED // self._target.config.vocab_size)
        blocks = [
            score_tokens(self._target.logits(hidden[index]).float() / temperatures, next_ids)
            for index, next_ids, temperatures in zip(
                *(tensor.split(num_rows) for tensor in inputs.scored), strict=True
            )
        ]
        return TokenScores(
            *(
                torch.cat(parts)
                for parts in zip(*(block.tensors() for block in blocks), strict=True)
            )
        )

    def refresh(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Run the drafter over the target's tokens, once the target has chosen a token after each
        node.

        target_tokens: int32 [B, N]
        num_accepted:  int32 [B], -1 where held
        Returns the input of `draft_logits`, [B, hidden], and the features for the next step, [B,
        hidden].
        """
        return self._drafting.refresh(inputs, aux_hidden_states, target_tokens, num_accepted)

    def propose(
        self, inputs: ForwardInput, aux_hidden_states: Tensor, verified: VerifyOutput, num: int
    ) -> Tensor:
        """As `refresh`, for a drafter that makes all drafts in one pass. Returns the input of
        `draft_logits` for each of `num` drafts, [num, B, hidden]."""
        drafter = cast(BlockDrafter, self._drafting)
        tokens, num_accepted = verified.tokens, verified.num_accepted
        return drafter.propose(inputs, aux_hidden_states, tokens, num_accepted, num)

    def draft(
        self, drafts: Tensor, hidden: Tensor, start: Tensor, slots: Slots, offset: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Run one more step of the drafter, over `drafts` int32 [B] behind position `start` int64
        [B] + `offset`. Returns the same as `refresh`."""
        drafter = self._drafting
        offset += 1 + drafter.position_offset
        return drafter.step(chain_input(self._state, drafts[:, None], start, slots, offset), hidden)

    def draft_nodes(
        self,
        tokens: Tensor,
        hidden: Tensor,
        start: Tensor,
        depths: Tensor,
        ancestor_mask: Tensor,
        slots: Slots,
    ) -> tuple[Tensor, Tensor]:
        """Run one step of the drafter over Q nodes of draft trees.

        tokens: int32 [B, Q], -1 for none; their keys come behind those of M - Q other nodes
        hidden: [B · Q, hidden], the features of their parents
        start:  int64 [B], position of the golden token
        depths: int64 [M], number of drafts on the path to each of all M nodes
        ancestor_mask: bool [B, Q, M]
        Returns the input of `draft_logits` and the features for the next step, both [B · Q,
        hidden].
        """
        drafter = self._drafting
        offset = 1 + drafter.position_offset
        return drafter.step(
            tree_input(self._state, tokens, start, depths, ancestor_mask, slots, offset), hidden
        )

    def move_keys(self, nodes: Tensor, inputs: ForwardInput) -> None:
        """Move the target's keys of accepted nodes, int64 [B, D], of the inputs' trees; see
        `cache.move_keys`."""
        for memory in self._cache.memories:
            move_keys(memory, nodes, inputs.start, inputs.context.block_table)
        if self._cache.states is not None:
            self._cache.states.accept(self._state.ids[inputs.slots], nodes)

    def encode(self, images: Sequence[ImageToEncode]) -> None:
        """Encode images, and put their vectors where the target's passes read them."""
        if self._target.images is not None and images:
            self._target.images.encode(images)

    def copy_states(self, copies: Sequence[StateCopy]) -> None:
        """Copy states of the target's linear attention from row to row, if there are any to
        copy."""
        if copies and self._cache.states is not None:
            self._cache.states.copy(copies)

    def draft_logits(self, normed: Tensor) -> Tensor:
        """The drafter's logits for the next draft, [B, draft_vocab_size]."""
        return self._drafting.draft_logits(normed)

    def draft_share(self, normed: Tensor) -> Tensor | LogitsShare:
        """As `draft_logits`, for a caller that needs only the greatest logit; so it may be this
        rank's share."""
        drafter = self._drafting
        if self._target.ranks.size == 1 or not isinstance(drafter, ShareDrafter):
            return self.draft_logits(normed)
        return drafter.draft_share(normed)

    @property
    def _drafting(self) -> Drafter:
        assert self._drafter is not None
        return self._drafter
