"""Owns what the engine asks of a step, whatever is in it."""

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
    adaptive:      iterations of all levels come up
    drafting:      how the drafter's drafts are made and verified; None: as their layout says
    mixed:         decode iterations may compute chunks of prompts beside
    gather:        between ranks that must choose alike how they multiply; None: there is one
    """

    lag: int = 0
    enforce_eager: bool = False
    adaptive: bool = False
    drafting: DraftingFactory | None = None
    mixed: bool = False
    gather: Gather | None = None


class Step(Protocol):
    """Runs iterations: verify the last drafts, accept, draft the next.

    piggyback_limits: what it can compute of prompts beside a decode iteration
    """

    @property
    def piggyback_limits(self) -> PiggybackLimits: ...

    def launch(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> PendingOutput:
        """Start one iteration, whose snapshot the grammar has. B requests; N = 1 node each in a
        prefill, when decoding as many as were drafted and one.

        processed: logits processors that are called, by their request's place in the batch
        On a GPU it may return at once; lag + 1 iterations may be under way before the first one's
        result is read.
        """

    def leave(self, slots: Sequence[int]) -> None:
        """Requests have finished: from now on their slots store and accept nothing."""

    def forget_graphs(self) -> None:
        """Let go of what was captured; nothing is launched any more."""

    def warm_ups(self, max_prefill_tokens: int, max_model_len: int) -> WarmUps:
        """What captures all graphs and compiles all kernels that requests may need; nothing on a
        CPU. No slot may have a request while one runs."""
