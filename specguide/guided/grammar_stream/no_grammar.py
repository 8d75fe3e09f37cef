"""Owns the grammar objects of an engine without guides, which do nothing."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from specguide.batch import GuideSnapshot
from specguide.drafts.layout import DraftLayout
from specguide.errors import InvalidParams, MatcherError
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.grammar_future import GrammarFuture
from specguide.guided.grammar_stream.buffers import ProposalBuffers
from specguide.guided.grammar_stream.stream import GrammarCounters
from specguide.kernels.forward_stream import ForwardStream
from specguide.trace import Recorder


class NoWalks:
    """The part of a `GrammarStream` that does nothing where no matchers walk."""

    def submit(self, snapshot: GuideSnapshot) -> None:
        pass

    def announce_wait(self) -> None:
        pass

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        return {}

    def detach(self, slot: int) -> None:
        pass

    def is_idle(self, slot: int) -> bool:
        return True

    def counters(self) -> GrammarCounters:
        return GrammarCounters()

    def take_callback_times(self) -> list[tuple[int, int, int, int]]:
        return []


class NoGrammar(NoWalks):
    """A `GrammarStream` without callbacks, rows, copies, waits or events: every row is free and no
    slot is ever held."""

    proposals: ProposalBuffers | None = None
    exposed_s: float | None = 0.0

    def __init__(
        self, num_slots: int, layout: DraftLayout, forward: ForwardStream, recorder: Recorder
    ) -> None:
        self.layout, self.forward, self.recorder = layout, forward, recorder
        self.held = torch.zeros(num_slots, dtype=torch.uint8, device=forward.device)

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        pass

    def wait_rows(self) -> None:
        pass

    def chain_rows(self, slots: slice | Tensor, num_nodes: int) -> None:
        return None

    def place_rows(self, slots: slice | Tensor, places: Tensor) -> None:
        return None

    def node_rows(self, node: int, slots: Tensor) -> None:
        return None

    def rows(self, row_ids: Tensor) -> None:
        return None

    def abandon(self) -> None:
        pass


class NoCompiler:
    """A `GrammarCompiler` that refuses every guide."""

    def submit(self, guide: Guide, room: int | None = None) -> GrammarFuture:
        """A future that has failed with InvalidParams."""
        future = GrammarFuture()
        future.set_exception(
            InvalidParams(
                "this engine was built without guides: leave the guide out, or build the engine "
                "with them (not guide=None, on the command line not --no-guides)",
                param="guide",
            )
        )
        return future

    def compile(self, guide: Guide) -> CompiledGrammar:
        """Raise InvalidParams: there are no guides."""
        return self.submit(guide).result()

    def warm_up(self) -> None:
        pass

    def close(self) -> None:
        pass
