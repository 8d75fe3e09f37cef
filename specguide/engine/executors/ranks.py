"""Owns the executor of several ranks: rank 0 is in this process, each other rank in a process of
its own, and all run the same step."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch.distributed import DistStoreError

from specguide.batch import Batch, StepOutput
from specguide.config.resolved import ResolvedConfig
from specguide.engine.executors.base import Capabilities, PendingOutput
from specguide.engine.executors.followers import (
    Follower,
    OneHost,
    RankFailed,
    RankUnfit,
    whose_fault,
)
from specguide.engine.executors.joined import Hosts
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.executors.rank_process import (
    Collect,
    Execute,
    Plan,
    RankBuild,
    Release,
    WarmUp,
    checkpoints_of,
    digest,
    load_part,
)
from specguide.engine.executors.watch import Watch
from specguide.engine.setup.checkpoint_identity import checkpoints
from specguide.errors import EngineError, InvalidParams, UserError
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.parallel import CollectiveFailed, Collectives, Meeting
from specguide.sampling import RequestProcessors
from specguide.speculation import Step

_LOAD_TIMEOUT_S = 1800.0
_LEAVE_S = 5.0
_OF_WAITS = (CollectiveFailed, RankFailed, DistStoreError, EOFError, OSError)
"""Errors at rank 0 that mean that another rank did not take part."""
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class CheckedOutput:
    """An output that counts only if all ranks have the same."""

    pending: PendingOutput
    executor: RanksExecutor

    def result(self) -> StepOutput:
        """See PendingOutput. Raises EngineError that names a rank with another output."""
        return self.executor.agreed(self.pending)


class RanksExecutor:
    """An `Executor`. The grammar runs on rank 0, which sends its rows to the others within the
    step.

    After any failure, all ranks are ended and nothing is executed any more.
    """

    def __init__(
        self,
        own: LocalExecutor,
        followers: list[Follower],
        timeout_s: float,
        collectives: Iterable[Collectives],
    ) -> None:
        """own: rank 0's executor; followers: the other ranks, loaded; collectives: those of rank
        0"""
        self._own, self._followers, self._timeout_s = own, followers, timeout_s
        collectives = tuple(collectives)
        self._watch = Watch(followers, partial(_abort, collectives))
        self._leave = weakref.finalize(self, _leave, own.step, collectives, self._watch)
        self._failure: EngineError | None = None

    @classmethod
    def load(
        cls,
        config: ResolvedConfig,
        start: Callable[[int, float], Follower] = Follower.started,
        build: RankBuild | None = None,
    ) -> RanksExecutor:
        """Start the ranks, and load its part of the models on each. Raises as `LocalExecutor.load`
        does, and EngineError for a rank that does not come.

        start: makes the follower of a rank, with its timeout in seconds
        build: how each rank is built; None: the default
        """
        timeout_s = config.rank_timeout_s
        build = build or RankBuild()
        followers = list[Follower]()
        try:
            with closing(_place(config, start)) as place:
                for rank in range(1, config.num_ranks):
                    followers.append(place.follower(rank, timeout_s))
            addresses = [place.address, *(it.address or place.address for it in followers)]
            meeting, store = Meeting.open(config.num_ranks, timeout_s, addresses)
            configs = [_on_device(config, index) for index in (0, *(it.index for it in followers))]
            own_plan, *plans = (
                Plan(its_config, meeting, rank, build) for rank, its_config in enumerate(configs)
            )
            for follower in followers:
                follower.hear_first(timeout_s)
            for follower, plan in zip(followers, plans, strict=True):
                follower.tell(plan)
            _check_checkpoints(followers, own_plan)
            models = load_part(own_plan, store)
            _hear(followers, _LOAD_TIMEOUT_S)
            own = LocalExecutor.build(configs[0], *models, build.parts)
            _hear(followers, _LOAD_TIMEOUT_S)
        except BaseException as cause:
            if isinstance(cause, Exception) and not isinstance(cause, UserError):
                words = _in_words(followers, cause, timeout_s)
                _kill(followers)
                raise EngineError(f"the ranks could not start: {words}") from cause
            _kill(followers)
            raise
        target = models[0]
        both = {target.ranks.collectives, target.stage.world.collectives}
        return cls(own, followers, timeout_s, both)

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
        """Process ids of the ranks 1 and up that are on this host."""
        return [it.process.pid for it in self._followers if it.address is None]

    def execute(self, batch: Batch) -> PendingOutput:
        """See Executor. Raises EngineError that names the rank that is to blame."""
        return CheckedOutput(self._together(Execute(batch), lambda: self._own.execute(batch)), self)

    def release(self, slots: Sequence[int]) -> None:
        """See Executor."""
        if slots and self._failure is None:
            self._together(Release(tuple(slots)), lambda: self._own.release(slots))

    def warm_up(self) -> None:
        """See Executor."""
        self._together(WarmUp(), self._own.warm_up)
        self._guarded(lambda: _hear(self._followers, _LOAD_TIMEOUT_S))

    def close(self) -> None:
        """See Executor."""
        for follower in self._followers:
            follower.end()
        self._leave()
        self._failure = self._failure or EngineError("the engine's ranks were closed")

    def agreed(self, pending: PendingOutput) -> StepOutput:
        """The oldest output under way, after it was compared with that of all ranks.

        Rank 0 waits for the others' digests before it waits for its own device, since nothing would
        end a device's wait for a rank that is gone.
        """
        self._together(Collect(), lambda: None)
        theirs = self._guarded(
            lambda: [follower.hear(self._timeout_s) for follower in self._followers]
        )
        output = self._guarded(pending.result)
        ours = digest(output)
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
        """Send a message to the other ranks, and do the same here."""

        def run() -> T:
            for follower in self._followers:
                follower.tell(message)
            with self._watch():
                return own()

        return self._guarded(run)

    def _guarded(self, call: Callable[[], T]) -> T:
        if self._failure is not None:
            raise self._failure
        try:
            return call()
        except BaseException as cause:
            self._stop(EngineError(_in_words(self._followers, cause, self._timeout_s)), cause)
        raise AssertionError("unreachable")

    def _stop(self, failure: EngineError, cause: BaseException | None = None) -> None:
        """End all ranks and raise the failure. The other ranks may be waiting for a part of the
        failed iteration that never comes."""
        self._failure = failure
        _kill(self._followers)
        self._leave()
        raise failure from cause


def _place(config: ResolvedConfig, start: Callable[[int, float], Follower]) -> Hosts | OneHost:
    device = torch.device(config.device)
    if config.rank_address is not None:
        return Hosts(config.rank_address, config.num_ranks, device)
    _check_devices(config)
    return OneHost(start)


def _on_device(config: ResolvedConfig, index: int) -> ResolvedConfig:
    """The configuration of a rank, with its own device. All ranks trace if rank 0 does, so that
    they capture the same graphs."""
    device = f"cuda:{index}" if torch.device(config.device).type == "cuda" else config.device
    return replace(config, device=device)


def _check_devices(config: ResolvedConfig) -> None:
    """Raises InvalidParams where there are fewer GPUs than ranks."""
    num_devices = torch.cuda.device_count()
    if torch.device(config.device).type == "cuda" and num_devices < config.num_ranks:
        raise InvalidParams(
            f"tensor_parallel_size × pipeline_parallel_size = {config.num_ranks} ranks need as "
            f"many GPUs, and torch finds {num_devices} here: lower them, or set rank_address to "
            "use the GPUs of other hosts too",
            param="tensor_parallel_size",
        )


def _leave(step: Step, collectives: Iterable[Collectives], watch: Watch) -> None:
    """End this process's part in the collectives. NCCL ends only once the graphs are gone in which
    its calls were captured."""
    watch.end()
    threads = _abort(collectives)
    step.forget_graphs()
    for thread in threads:
        thread.join(_LEAVE_S)


def _abort(collectives: Iterable[Collectives]) -> list[threading.Thread]:
    """Abort all collectives, each on a new thread. Returns the threads."""
    threads = [threading.Thread(target=each.abort, daemon=True) for each in collectives]
    for thread in threads:
        thread.start()
    return threads


def _hear(followers: list[Follower], timeout_s: float) -> None:
    for follower in followers:
        follower.hear(timeout_s)


def _check_checkpoints(followers: list[Follower], own_plan: Plan) -> None:
    """Raise RankUnfit for a rank whose host has other checkpoints. Digests would not show that:
    sums over different weights are equal on all ranks, but wrong."""
    ours = checkpoints_of(own_plan)
    for follower in followers:
        if follower.hear(_LOAD_TIMEOUT_S) != ours:
            folders = " and ".join(map(str, checkpoints(own_plan.config)))
            raise RankUnfit(
                f"{follower} has other files in {folders} than rank 0: all hosts need the same "
                "checkpoints in the same folders"
            )


def _in_words(followers: list[Follower], cause: BaseException, timeout_s: float) -> str:
    """Why rank 0 failed with `cause`, in words that name the rank that is to blame."""
    if isinstance(cause, RankUnfit):
        return str(cause)
    if isinstance(cause, _OF_WAITS) or any(follower.end_in_words() for follower in followers):
        return whose_fault(followers, cause, timeout_s)
    return f"rank 0 failed: {type(cause).__name__}: {cause}"


def _kill(followers: list[Follower]) -> None:
    for follower in followers:
        follower.kill()
