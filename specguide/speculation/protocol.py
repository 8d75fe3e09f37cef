"""Owns Step, the interface between an executor and the step that it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from specguide.batch import Batch
from specguide.kernels.products import Gather
from specguide.piggyback import PiggybackLimits
from specguide.sampling import RequestProcessors
from specguide.speculation.drafting import DraftingFactory
from specguide.speculation.results import PendingOutput
from specguide.speculation.warm_up import WarmUps


@dataclass(frozen=True)
class StepOptions:
    """How a step runs.

    lag:           iterations that are launched before the results of an earlier one are read
    enforce_eager: never capture an iteration
    adaptive:      iterations may have any level of the layout
    drafting:      how the drafter's drafts are made and verified; None: as their layout says
    mixed:         decode iterations may carry chunks of prompts
    gather:        gathers values of all ranks, so that all use the matrix product kernels that the
                   first one has found fastest; None: there is one rank
    """

    lag: int = 0
    enforce_eager: bool = False
    adaptive: bool = False
    drafting: DraftingFactory | None = None
    mixed: bool = False
    gather: Gather | None = None


class Step(Protocol):
    """Runs iterations: verify the last drafts, accept, draft the next.

    piggyback_limits: how many prompt tokens a decode iteration may carry
    """

    @property
    def piggyback_limits(self) -> PiggybackLimits: ...

    def launch(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> PendingOutput:
        """Start one iteration; its snapshot must have been submitted to the grammar. B requests
        have N nodes each: N = 1 in a prefill, else one more than was drafted.

        processed: the logits processors to call, by their request's row in the batch
        On a GPU it may return at once; lag + 1 iterations may be under way before the first one's
        result is read.
        """

    def leave(self, slots: Sequence[int]) -> None:
        """Clear the slots of requests that have finished: from now on, they store and accept
        nothing."""

    def forget_graphs(self) -> None:
        """Free all captured graphs; no iteration may be launched afterwards."""

    def warm_ups(self, max_prefill_tokens: int, max_model_len: int) -> WarmUps:
        """Functions that capture all graphs and compile all kernels that requests may need; none on
        a CPU. No slot may have a request while one of them runs."""
