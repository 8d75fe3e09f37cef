"""Owns chains in which some drafts come from the host: forced tokens and lookups."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specguide.drafts.layout import DraftLayout
from specguide.kernels import on_device
from specguide.sampling import append_drafts
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import Accepted, DraftingParts
from specguide.speculation.forward_input import ForwardInput


class ProposedChains(Chains):
    """Chains that grammar callbacks lengthen, or make alone where there is no drafter.

    The drafter drafts its K tokens as usual. Where the grammar forces text behind draft K - 1, the
    callback that accepts draft K - 1 writes the forced tokens from place K on. That happens while
    the drafter's last pass runs, so nothing waits for it. The device reads how long each chain has
    become.
    """

    def __init__(self, parts: DraftingParts) -> None:
        super().__init__(parts)
        assert parts.grammar.proposals is not None
        self._proposals = parts.grammar.proposals

    def clear(self, slots: Sequence[int]) -> None:
        self._proposals.clear(on_device(slots, self._state.ids.device))

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        if layout.num_model:
            return super().draft(accepted, num_slots, layout)
        self._grammar.launch(1, num_slots)
        self._passes.store(accepted.beside)
        self._grammar.announce_wait()
        self._grammar.wait_rows()

    def _store(self, drafts: Tensor, ids: Tensor, node: int, num_accepted: Tensor) -> None:
        append_drafts(drafts, self._proposals.chain_len, num_accepted, ids, self._tokens)

    def _origins(self, inputs: ForwardInput) -> Tensor | None:
        return self._proposals.origins[inputs.slots][:, 1 : inputs.num_nodes].clone()
