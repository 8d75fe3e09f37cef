"""Owns chains of drafts: each draft follows the one before, and comes from one pass of a drafter
while the grammar walks beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specguide.drafts.layout import DraftLayout
from specguide.kernels import LogitsShare
from specguide.sampling import (
    Failures,
    accept_drafts,
    chain_paths,
    process_logits,
    score_tokens,
    store_drafts,
)
from specguide.slots import Slots
from specguide.speculation.batch_sampling import Sampling, SamplingKind
from specguide.speculation.drafting import Accepted, DraftingParts, accept_state
from specguide.speculation.forward_input import ForwardInput, Nodes, chain_input
from specguide.speculation.results import VerifyOutput


class Chains:
    """The `Drafting` of chains. It drafts greedily among the tokens that the bitmask rows allow, or
    among all tokens where drafts are unguided."""

    def __init__(self, parts: DraftingParts) -> None:
        self._passes, self._sampler, self._state, self._grammar = parts
        self._tokens = self._state.nodes.tokens
        self._accept_state = accept_state(parts)
        self._depths = torch.arange(self._tokens.shape[1], device=self._state.ids.device)

    def clear(self, slots: Sequence[int]) -> None:
        """Does nothing: writing a slot's entry clears its drafts."""

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        drafts = self._tokens[slots, 1:]
        self._tokens[slots, 1:] = torch.where(num_accepted[:, None] < 0, drafts, -1)

    def nodes(self, slots: Slots, layout: DraftLayout) -> Nodes:
        tokens, start = self._tokens[slots, : layout.num_nodes], self._state.lengths[slots]
        return self.golden(chain_input(self._state, tokens, start, slots))

    def golden(self, inputs: ForwardInput) -> Nodes:
        num_nodes = inputs.num_nodes
        return Nodes(
            inputs,
            self._grammar.chain_rows(inputs.slots, num_nodes),
            self._depths[:num_nodes],
            lambda: chain_paths(self._drafts(inputs)),
        )

    def verify(
        self, logits: Tensor | LogitsShare, nodes: Nodes, features: Tensor, sampling: Sampling
    ) -> Accepted:
        inputs = nodes.inputs
        # Copies, since the next drafts overwrite these before the host reads them.
        drafts, origins = self._drafts(inputs).clone(), self._origins(inputs)
        processed, failures = self._process(logits, inputs, sampling)
        target_tokens = self._sampler.choose(processed, nodes, sampling)
        num_accepted, _ = accept_drafts(
            target_tokens, self._state.ids[inputs.slots], inputs.start, self._accept_state
        )
        if sampling.kind >= SamplingKind.ADJUSTED:
            self._state.adjustments.take(self._state.ids[inputs.slots], target_tokens, num_accepted)
        scores = None
        if sampling.kind >= SamplingKind.SCORED:
            assert isinstance(logits, Tensor)  # only greedy batches have a share
            scores = score_tokens(logits, target_tokens)
        verified = VerifyOutput(
            target_tokens, num_accepted, drafts, scores, failures, origins=origins
        )
        return Accepted(verified, inputs, features)

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """Refresh the drafter from the target's hidden states, then draft K tokens.

        Unguided drafts wait for no row: the grammar walks over them at its own pace, and only the
        end waits for it.
        """
        verified, inputs, features, beside = accepted
        grammar = self._grammar
        slots, num_accepted = inputs.slots, verified.num_accepted
        grammar.launch(1, num_slots)
        self._passes.store(beside)
        normed, hidden = self._passes.refresh(inputs, features, verified.tokens, num_accepted)
        lengths = self._state.lengths[slots]
        for node in range(1, layout.num_model + 1):
            if self._sampler.guided_drafts:
                grammar.announce_wait()
            logits = self._passes.draft_share(normed)
            grammar.recorder.forward(f"draft {node}")
            if self._sampler.guided_drafts:
                grammar.wait_rows()
            drafts = self.choose(logits, slots, node, num_accepted)
            grammar.recorder.forward(f"choose {node}")
            if node < layout.num_model:
                grammar.launch(node + 1, num_slots)
                normed, hidden = self._passes.draft(drafts, hidden, lengths, slots, node - 1)
        if not self._sampler.guided_drafts:
            grammar.announce_wait()
            grammar.wait_rows()

    def choose(
        self, logits: Tensor | LogitsShare, slots: Slots, node: int, num_accepted: Tensor
    ) -> Tensor:
        """Choose and store draft `node` of each slot, int32 [B], -1 for none. A held slot keeps the
        draft that it has; a slot whose request takes fewer drafts gets none.

        logits:       [B, draft_vocab_size]
        num_accepted: int32 [B], as in VerifyOutput
        """
        limits = self._state.drafts
        ids = self._state.ids[slots]
        rows = self._grammar.node_rows(node - 1, limits.row_slots[slots])
        drafts = self._sampler.draft(logits, rows, ids, node - 1, self._passes.target_ids)
        self._store(drafts, ids, node, num_accepted)
        return drafts

    def _store(self, drafts: Tensor, ids: Tensor, node: int, num_accepted: Tensor) -> None:
        """Write draft `node`, int32 [B], of the slots `ids`, int64 [B], into their chains."""
        most = self._state.drafts.num_model
        store_drafts(drafts, node, most, num_accepted, ids, self._tokens)

    def _process(
        self, logits: Tensor | LogitsShare, inputs: ForwardInput, sampling: Sampling
    ) -> tuple[Tensor | LogitsShare, Failures]:
        if isinstance(logits, LogitsShare) or not sampling.processed:
            return logits, {}
        return process_logits(logits, self._drafts(inputs), sampling.processed)

    def _drafts(self, inputs: ForwardInput) -> Tensor:
        """The drafts that are verified, int32 [B, N - 1]."""
        return self._tokens[inputs.slots][:, 1 : inputs.num_nodes]

    def _origins(self, inputs: ForwardInput) -> Tensor | None:
        """Who proposed each draft, uint8 [B, N - 1]; None: the drafter proposed all."""
        return None
