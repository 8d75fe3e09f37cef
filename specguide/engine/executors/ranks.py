"""Owns the executor of several ranks: rank 0 in this process, each other one in a process of its
own, all running the same step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from specguide.batch import Batch, StepOutput
from specguide.engine.executors.base import Capabilities, PendingOutput
from specguide.engine.executors.followers import Follower, RankFailed, whose_fault
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.executors.rank_process import (
    Collect,
    Execute,
    Plan,
    Release,
    WarmUp,
    digest,
    load_part,
)
from specguide.errors import EngineError, UserError
from specguide.guided.stream import GrammarStream
from specguide.parallel import CollectiveFailed, Meeting
from specguide.resolved_config import ResolvedConfig
from specguide.sampling import RequestProcessors

_LOAD_TIMEOUT_S = 1800.0
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class CheckedOutput:
    """An output that counts once all ranks have the same."""

    pending: PendingOutput
    executor: RanksExecutor

    def result(self) -> StepOutput:
        """As PendingOutput's. Raises EngineError that names a rank with another output."""
        return self.executor.agreed(self.pending)


class RanksExecutor:
    """An `Executor`. Rank 0's grammar stream walks, and sends its rows within the step.

    Once anything has failed, all ranks are ended and nothing is executed any more.
    """

    def __init__(self, own: LocalExecutor, followers: list[Follower], timeout_s: float) -> None:
        """own: rank 0's; followers: the others, which have loaded"""
        self._own, self._followers, self._timeout_s = own, followers, timeout_s
        self._failure: EngineError | None = None

    @classmethod
    def load(
        cls, config: ResolvedConfig, start: Callable[[int, float], Follower] = Follower
    ) -> RanksExecutor:
        """Start the ranks, and load on each its part. Raises as `LocalExecutor.load`, and
        EngineError for a rank that does not come.

        start: makes the follower of a rank, with its timeout in seconds
        """
        size, timeout_s = config.num_ranks, config.rank_timeout_s
        configs = [_of_rank(config, rank) for rank in range(size)]
        followers = [start(rank, timeout_s) for rank in range(1, size)]
        try:
            meeting, store = Meeting.open(size, timeout_s)
            _hear(followers, _LOAD_TIMEOUT_S)
            for follower in followers:
                follower.tell(Plan(configs[follower.rank], meeting, follower.rank))
            models = load_part(configs[0], meeting, 0, store)
            _hear(followers, _LOAD_TIMEOUT_S)
            own = LocalExecutor.of(configs[0], *models)
            _hear(followers, _LOAD_TIMEOUT_S)
        except BaseException as cause:
            if isinstance(cause, Exception) and not isinstance(cause, UserError):
                words = whose_fault(followers, cause, timeout_s)
                _kill(followers)
                raise EngineError(f"the ranks could not start: {words}") from cause
            _kill(followers)
            raise
        return cls(own, followers, timeout_s)

    @property
    def capabilities(self) -> Capabilities:
        return self._own.capabilities

    @property
    def processors(self) -> dict[int, RequestProcessors]:
        return self._own.processors

    @property
    def grammar(self) -> GrammarStream:
        return self._own.grammar

    @property
    def process_ids(self) -> list[int]:
        """Of the ranks from 1 on."""
        return [follower.process.pid for follower in self._followers]

    def execute(self, batch: Batch) -> PendingOutput:
        """As Executor's. Raises EngineError that names the rank whose fault it was."""
        return CheckedOutput(self._together(Execute(batch), lambda: self._own.execute(batch)), self)

    def release(self, slots: Sequence[int]) -> None:
        """As Executor's."""
        if slots and self._failure is None:
            self._together(Release(tuple(slots)), lambda: self._own.release(slots))

    def warm_up(self) -> None:
        """As Executor's."""
        self._together(WarmUp(), self._own.warm_up)
        self._guarded(lambda: _hear(self._followers, _LOAD_TIMEOUT_S))

    def close(self) -> None:
        """As Executor's."""
        for follower in self._followers:
            follower.end()
        self._failure = self._failure or EngineError("the engine's ranks were closed")

    def agreed(self, pending: PendingOutput) -> StepOutput:
        """The oldest output under way, compared with that of all ranks."""
        output = self._together(Collect(), pending.result)
        ours = digest(output)
        theirs = self._guarded(
            lambda: [follower.hear(self._timeout_s) for follower in self._followers]
        )
        for follower, value in zip(self._followers, theirs, strict=True):
            if value != ours:
                self._stop(
                    EngineError(
                        f"{follower} diverges: its tokens or accept counts are not those of rank 0 "
                        f"(digest {value}, rank 0's {ours})"
                    )
                )
        return output

    def _together(self, message: object, own: Callable[[], T]) -> T:
        """Tell the others, and do the same here."""

        def run() -> T:
            for follower in self._followers:
                follower.tell(message)
            return own()

        return self._guarded(run)

    def _guarded(self, call: Callable[[], T]) -> T:
        if self._failure is not None:
            raise self._failure
        try:
            return call()
        except (CollectiveFailed, RankFailed, EOFError, OSError) as cause:
            words = whose_fault(self._followers, cause, self._timeout_s)
            self._stop(EngineError(words), cause)
        except BaseException as cause:
            name = type(cause).__name__
            self._stop(EngineError(f"rank 0 failed: {name}: {cause}"), cause)
        raise AssertionError("unreachable")

    def _stop(self, failure: EngineError, cause: BaseException | None = None) -> None:
        """All ranks end; the others of a failed iteration may wait for what never comes."""
        self._failure = failure
        _kill(self._followers)
        raise failure from cause


def _of_rank(config: ResolvedConfig, rank: int) -> ResolvedConfig:
    """Each has a device of its own; rank 0's timeline is the engine's."""
    device = f"cuda:{rank}" if torch.device(config.device).type == "cuda" else config.device
    return replace(config, device=device, trace=config.trace and rank == 0)


def _hear(followers: list[Follower], timeout_s: float) -> None:
    for follower in followers:
        follower.hear(timeout_s)


def _kill(followers: list[Follower]) -> None:
    for follower in followers:
        follower.kill()
