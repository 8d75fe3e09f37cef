"""Owns one iteration: verify the nodes, accept, draft the next, while the grammar runs beside it.

The forward stream's work is the code below, in order; `grammar.launch` forks the grammar stream
and `grammar.wait_rows` joins it. One walk serves both models: row j of a slot is filled once, when
node j becomes known, and read twice, by the drafter to choose node j + 1 and by the target to
verify it.
"""

from __future__ import annotations

from collections.abc import Sequence

from specguide.batch import Chunk, Piggyback
from specguide.drafts.layout import NO_DRAFTS, IterationLayouts
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.slots import Slots, SlotTable
from specguide.speculation.batch_sampling import Sampling, SamplingKind
from specguide.speculation.drafting import DraftingParts
from specguide.speculation.forward_input import ForwardInput, Nodes, prefill_input
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.prefill_plan import PrefillPlan, ScoredTokens
from specguide.speculation.protocol import StepOptions
from specguide.speculation.results import VerifyOutput
from specguide.speculation.sampler import Sampler
from specguide.speculation.shapes import shape_of


class Iteration:
    """Runs target, drafter, grammar and sampling, for a prefill or for slots that decode.

    An adaptive iteration may draft only one level of the layout; the next iteration then verifies
    that level. An adaptive prefill drafts the level `first_level`.
    """

    def __init__(
        self,
        passes: ForwardPasses,
        sampler: Sampler,
        state: SlotTable,
        grammar: GrammarStream,
        options: StepOptions,
    ) -> None:
        self._passes, self._state, self._grammar = passes, state, grammar
        self._recorder, self._layout = grammar.recorder, grammar.layout
        first = self._layout.first_level if options.adaptive else self._layout
        self._prefill_layouts = IterationLayouts(NO_DRAFTS, first)
        drafting = options.drafting or shape_of(self._layout).drafting
        self._drafting = drafting(DraftingParts(passes, sampler, state, grammar))

    def clear(self, slots: Sequence[int]) -> None:
        """Remove the drafts of slots whose requests begin."""
        self._drafting.clear(slots)

    def prefill_exactly(
        self, chunks: Sequence[Chunk], slots: Sequence[int], sampling: Sampling
    ) -> VerifyOutput:
        """Prefill these chunks without padding."""
        device = self._state.ids.device
        longest = max(len(chunk.token_ids) for chunk in chunks)
        plan = PrefillPlan.exact(chunks, slots, self._state.sizes.num_axes, device)
        return self.prefill(
            plan, longest, sampling, max(slots) + 1, ScoredTokens.of(chunks, device)
        )

    def prefill(
        self,
        plan: PrefillPlan,
        max_query_len: int,
        sampling: Sampling,
        num_slots: int,
        scored: ScoredTokens | None = None,
    ) -> VerifyOutput:
        """Prefill as a plan says; its slots are below num_slots, with at most max_query_len tokens
        each."""
        self._grammar.launch(0, num_slots)
        inputs = prefill_input(self._state, plan, max_query_len, scored)
        verified = self._iterate(
            self._drafting.golden(inputs), sampling, num_slots, self._prefill_layouts
        )
        active = self._state.active
        is_accepted = verified.num_accepted >= 0  # else it was held, and is prefilled again
        active[plan.slots] = active[plan.slots] & is_accepted
        return verified

    def prompts_exactly(self, piggyback: Piggyback) -> ForwardInput | None:
        """The chunks of prompts for `decode`, without padding; None: there are none."""
        if not piggyback.chunks:
            return None
        sizes, device = self._state.sizes, self._state.ids.device
        plan = PrefillPlan.exact(piggyback.chunks, piggyback.slots, sizes.num_axes, device)
        longest = max(len(chunk.token_ids) for chunk in piggyback.chunks)
        return prefill_input(self._state, plan, longest)

    def decode(
        self,
        slots: Slots,
        sampling: Sampling,
        levels: IterationLayouts,
        prompts: ForwardInput | None = None,
    ) -> VerifyOutput:
        """Decode `slots`. prompts: chunks to compute in the same pass of the target; they choose no
        tokens"""
        num_slots = slots.stop if isinstance(slots, slice) else len(self._state.lengths)
        self._grammar.launch(0, num_slots, levels.verified.num_nodes)
        nodes = self._drafting.nodes(slots, levels.verified)
        return self._iterate(nodes, sampling, num_slots, levels, prompts)

    def _iterate(
        self,
        nodes: Nodes,
        sampling: Sampling,
        num_slots: int,
        levels: IterationLayouts,
        prompts: ForwardInput | None = None,
    ) -> VerifyOutput:
        self._recorder.forward("prepare")
        inputs, layout, passes = nodes.inputs, levels.drafted, self._passes
        hidden, features, beside = passes.target(inputs, prompts, has_aux=layout.num_model > 0)
        self._grammar.announce_wait()
        is_greedy = sampling.kind is SamplingKind.GREEDY and not sampling.processed
        logits = (passes.target_share if is_greedy else passes.target_logits)(inputs, hidden)
        self._recorder.forward("target forward")
        self._grammar.wait_rows()
        accepted = self._drafting.verify(logits, nodes, features, sampling)
        verified = accepted.verified
        self._recorder.forward("verify")
        if layout.num_drafts:
            self._drafting.draft(accepted._replace(beside=beside), num_slots, layout)
        else:
            passes.store(beside)
            if self._layout.num_drafts:
                self._drafting.drop(inputs.slots, verified.num_accepted)
        return verified._replace(prompt_scores=passes.score_prompts(inputs, hidden))
