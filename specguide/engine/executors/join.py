"""Owns `join`: it runs ranks on this host for an engine whose rank 0 is on another host."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection

import torch

from specguide.engine.executors.followers import END_S
from specguide.engine.executors.host_links import (
    HostCame,
    HostRefused,
    HostRuns,
    RankCame,
    RankEnded,
    host_and_port,
    ranks_key,
    reach,
)
from specguide.engine.executors.rank_process import obey_rank_0
from specguide.errors import EngineError
from specguide.host.processes import end_with, ended_by
from specguide.host.release import versions

_LOGGER = logging.getLogger(__name__)
_AGAIN_S = 1.0
_LOOK_S = 0.25


def join(address: str, num_ranks: int | None = None) -> None:
    """Run ranks for the engine whose rank 0 listens at `address`, HOST:PORT. When that engine ends,
    wait there for the next one, until this is interrupted.

    num_ranks: most ranks to run; None: one per GPU here, or one where there is no GPU
    Raises InvalidParams, and EngineError where the engine refuses this host.
    """
    key, place = ranks_key(), host_and_port(address)
    offered = num_ranks or max(1, torch.cuda.device_count())
    is_logged = False
    while True:
        try:
            connection = reach(place, key)
        except OSError as cause:
            if not is_logged:
                _LOGGER.info("no engine listens at %s yet (%s); trying again", address, cause)
            is_logged = True
            time.sleep(_AGAIN_S)
            continue
        is_logged = False
        with connection, suppress(EOFError, ConnectionError):
            _run(connection, address, offered)


def _run(connection: Connection, address: str, num_ranks: int) -> None:
    """Run the ranks of one engine until it ends."""
    connection.send(HostCame(num_ranks, versions()))
    answer = connection.recv()
    if isinstance(answer, HostRefused):
        raise EngineError(f"the engine at {address} refuses this host: {answer.words}")
    assert isinstance(answer, HostRuns)
    _LOGGER.info("running ranks %s of the engine at %s", answer.ranks, address)
    processes = {rank: _start(address, rank) for rank in answer.ranks}
    try:
        while not connection.poll(_LOOK_S):  # rank 0's host sends nothing; it only closes
            for rank, process in list(processes.items()):
                if (exit_code := process.poll()) is not None:
                    del processes[rank]
                    connection.send(RankEnded(rank, ended_by(exit_code)))
    finally:
        _end(list(processes.values()))
        _LOGGER.info("the engine at %s has ended", address)


def _start(address: str, rank: int) -> subprocess.Popen[bytes]:
    run = f"from {__name__} import run_rank; run_rank({address!r}, {rank}, {os.getpid()})"
    return subprocess.Popen([sys.executable, "-c", run], stdin=subprocess.DEVNULL)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait for the ranks to end: they do so when rank 0 is gone; those that hang are killed."""
    until_s = time.perf_counter() + END_S
    for process in processes:
        try:
            process.wait(max(0.0, until_s - time.perf_counter()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_rank(address: str, rank: int, parent: int) -> None:
    """Entry point of a rank's process.

    address: address of rank 0
    parent:  id of the process that has started this one
    """
    end_with(parent)
    connection = reach(host_and_port(address), ranks_key())
    connection.send(RankCame(rank))
    obey_rank_0(connection)
