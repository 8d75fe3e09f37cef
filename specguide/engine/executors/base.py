"""Owns Executor, the interface between the engine's loop and what runs its batches."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from specguide.batch import Batch, StepOutput
from specguide.cache import CacheSize
from specguide.config.resolved import ResolvedConfig
from specguide.drafts.layout import DraftLayout
from specguide.errors import InvalidParams
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.params import SamplingParams
from specguide.piggyback import NEVER_PIGGYBACK, PiggybackLimits
from specguide.sampling import RequestProcessors
from specguide.scheduler import SchedulerLimits


@dataclass(frozen=True)
class Capabilities:
    """What an executor can run.

    vocab_size:    width of the logits
    max_model_len: longest prompt plus output, tokens
    cache_size:    size of the KV cache; the scheduler hands out its pages
    layout:        the drafts that there may be; without speculation none
    guided_drafts: drafts are chosen among the tokens that the grammar allows
    lag:           batches that are launched before the results of an earlier one are read
    piggyback:     how many prompt tokens a decode iteration may carry
    state_rows:    rows of memory in which states of linear attention can be saved; None: the model
                   has no such states
    image_rows:    vectors of images that are in memory at once; 0: it reads text only
    """

    vocab_size: int
    max_model_len: int
    cache_size: CacheSize
    layout: DraftLayout
    guided_drafts: bool
    lag: int
    piggyback: PiggybackLimits = NEVER_PIGGYBACK
    state_rows: range | None = None
    image_rows: int = 0

    def scheduler_limits(self, config: ResolvedConfig) -> SchedulerLimits:
        """The limits within which the scheduler must plan."""
        return SchedulerLimits(
            max_batch_size=config.max_batch_size,
            max_model_len=self.max_model_len,
            max_prefill_tokens=config.max_prefill_tokens,
            num_draft_tokens=self.layout.num_drafts,
            num_draft_positions=self.layout.num_positions,
            page_size=config.cache.page_size,
            piggyback=self.piggyback,
            max_step_s=config.max_step_s,
            min_slowdown=config.min_slowdown,
            state_rows=self.state_rows,
            image_rows=self.image_rows,
        )

    def layout_for(self, params: SamplingParams) -> DraftLayout | None:
        """The drafts that a request takes; None: all. Raises InvalidParams where it asks for more
        than there are."""
        if params.speculation is None:
            return None
        if params.speculation.guided_drafts and not self.guided_drafts:
            raise InvalidParams(
                "speculation.guided_drafts is True, but this engine was built with "
                "guided_drafts=False: leave the parameter out, or build the engine with "
                "guided_drafts=True",
                param="speculation.guided_drafts",
            )
        return self.layout.within(params.speculation)


class PendingOutput(Protocol):
    """The output of a batch that may still run."""

    def result(self) -> StepOutput:
        """Wait for the output. Raises the error with which the batch failed."""


class Executor(Protocol):
    """Runs batches in order. One thread calls it.

    capabilities: what it can run
    processors:   the logits processors of requests under way, by request id; the loop adds and
                  removes them. They stay in this process, while a batch may be sent to others
    grammar:      the grammar stream; the loop submits each batch's snapshot to it just before
                  `execute`
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def processors(self) -> MutableMapping[int, RequestProcessors]: ...

    @property
    def grammar(self) -> GrammarStream: ...

    def execute(self, batch: Batch) -> PendingOutput:
        """Start a batch. `capabilities.lag` + 1 may be under way before the first one's result is
        read."""

    def release(self, slots: Sequence[int]) -> None:
        """Clear slots that requests have left: later batches store and accept nothing for them,
        until another request enters."""

    def warm_up(self) -> None:
        """Compile all kernels and capture all graphs that requests may need. No slot may have a
        request."""

    def close(self) -> None:
        """End all that it has started, such as other processes. Nothing may be executed
        afterwards."""
