"""Owns the process of a rank other than 0: it carries out the messages of rank 0, in order.

Messages are pickled. They go over a private pair of sockets from rank 0, or over a link between
hosts.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch

from specguide.batch import Batch, StepOutput
from specguide.config.resolved import ResolvedConfig
from specguide.engine.executors.base import PendingOutput
from specguide.engine.executors.local import LocalExecutor, load_models
from specguide.engine.setup.checkpoint_identity import checkpoints, identity
from specguide.engine.setup.parts import EngineParts
from specguide.host.processes import end_with
from specguide.models import Decoder
from specguide.parallel import CollectiveFailed, Meeting, Ranks, Stage, connect_stages


@dataclass(frozen=True)
class RankBuild:
    """How each rank is built; it is pickled for other processes.

    load:  loads the models, as `load_models` does
    parts: the parts of its executor
    """

    load: Callable[[ResolvedConfig, Ranks, Stage], tuple[Decoder, Any]] = load_models
    parts: EngineParts = field(default_factory=EngineParts)


@dataclass(frozen=True)
class Plan:
    """The first message to a rank: what it is to run."""

    config: ResolvedConfig
    meeting: Meeting
    rank: int
    build: RankBuild


@dataclass(frozen=True)
class Execute:
    """Message to start a batch."""

    batch: Batch


@dataclass(frozen=True)
class Collect:
    """Message to wait for the oldest batch under way, and to answer with its digest."""


@dataclass(frozen=True)
class Release:
    """Message to clear slots; see Executor.release."""

    slots: Sequence[int]


@dataclass(frozen=True)
class WarmUp:
    """Message to warm up; see Executor.warm_up."""


@dataclass(frozen=True)
class Said:
    """A rank's answer: that it has reached a stage, or the digest of an output."""

    value: str


@dataclass(frozen=True)
class Failed:
    """A rank's failure, in words.

    is_ours: the rank failed by itself; else another rank did not take part
    """

    words: str
    is_ours: bool


READY, LOADED = Said("ready"), Said("loaded")


def digest(output: StepOutput) -> str:
    """A digest of the tokens that count, and of their numbers. If it differs between ranks, one of
    them is wrong."""
    places = torch.arange(output.tokens.shape[1])
    counted = output.tokens.cpu() * (places < output.num_tokens.cpu()[:, None])
    state = hashlib.blake2b(output.num_tokens.cpu().to(torch.int64).numpy().tobytes())
    state.update(counted.to(torch.int64).numpy().tobytes())
    return state.hexdigest()[:16]


def run(connection: Connection) -> None:
    """Serve rank 0 until it closes the connection."""
    connection.send(READY)
    plan: Plan = connection.recv()
    connection.send(Said(checkpoints_of(plan)))
    models = load_part(plan)
    connection.send(LOADED)
    executor = LocalExecutor.build(plan.config, *models, plan.build.parts)
    connection.send(READY)
    pending: deque[PendingOutput] = deque()
    while True:
        obey(connection.recv(), executor, pending, connection)


def checkpoints_of(plan: Plan) -> str:
    """Hashes of a rank's checkpoints, by which hosts check that they have the same ones; "" where
    all ranks are on one host, and read the same files."""
    if plan.config.rank_address is None:
        return ""
    return " ".join(map(identity, checkpoints(plan.config)))


def load_part(plan: Plan, store: Any = None) -> tuple[Decoder, Any]:
    """Meet the other ranks, and load this rank's part of the models. store: on rank 0, its own.
    Raises as `load_models` does."""
    config = plan.config
    ranks, stage = connect_stages(
        plan.meeting,
        plan.rank,
        torch.device(config.device),
        config.pipeline_parallel_size,
        config.num_micro_batches,
        store,
        has_whole_experts=config.enable_expert_parallel,
    )
    return plan.build.load(config, ranks, stage)


def obey(
    order: Any, executor: LocalExecutor, pending: deque[PendingOutput], connection: Connection
) -> None:
    """Carry out one message of rank 0."""
    match order:
        case Execute(batch):
            pending.append(executor.execute(batch))
        case Collect():
            connection.send(Said(digest(pending.popleft().result())))
        case Release(slots):
            executor.release(slots)
        case WarmUp():
            executor.warm_up()
            connection.send(READY)


def obey_rank_0(connection: Connection) -> None:
    """`run`, and end this process; a failure is reported first."""
    try:
        run(connection)
    except (EOFError, ConnectionError):  # rank 0 is done, or gone
        os._exit(0)
    except BaseException as cause:
        words = f"{type(cause).__name__}: {cause}"
        with suppress(OSError):
            connection.send(Failed(words, is_ours=not isinstance(cause, CollectiveFailed)))
        os._exit(1)


def main(file_descriptor: int, parent: int) -> None:
    """Entry point of the process.

    file_descriptor: its end of the pair of sockets
    parent:          id of rank 0's process
    """
    end_with(parent)
    obey_rank_0(Connection(file_descriptor))
