"""Owns blocks of drafts: chains whose drafts all come from one pass of a drafter."""

from __future__ import annotations

from specguide.drafts.layout import DraftLayout
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import Accepted


class Blocks(Chains):
    """The `Drafting` of blocks. It computes the logits of all K positions first; then it chooses
    each draft under the bitmask row behind the draft before."""

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """See `Chains.draft`: unguided drafts wait for no row until the end."""
        verified, inputs, features, beside = accepted
        grammar = self._grammar
        is_guided = self._sampler.guided_drafts
        grammar.launch(1, num_slots)
        self._passes.store(beside)
        normed = self._passes.propose(inputs, features, verified, layout.num_model)
        grammar.announce_wait()
        logits = self._passes.draft_logits(normed.flatten(0, 1)).unflatten(0, normed.shape[:2])
        grammar.recorder.forward("draft")
        for node in range(1, layout.num_model + 1):
            if is_guided:
                grammar.wait_rows()
            self.choose(logits[node - 1], inputs.slots, node, verified.num_accepted)
            grammar.recorder.forward(f"choose {node}")
            if node < layout.num_model:
                grammar.launch(node + 1, num_slots)
                grammar.announce_wait()
        if not is_guided:
            grammar.wait_rows()
