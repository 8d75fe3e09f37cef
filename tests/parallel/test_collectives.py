"""Ranks on a CPU do together what Collectives says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import collective_contract
import pytest
import thread_memory
import torch

from specguide.parallel import Meeting, connect

CPU = torch.device("cpu")


def test_two_processes_over_gloo() -> None:
    collective_contract.check_in_two_processes("cpu", shares_memory=False)


def test_two_threads_that_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    thread_memory.put_in(monkeypatch)
    meeting, store = Meeting.open(2, 60.0)
    with ThreadPoolExecutor(2) as pool:
        ranks = pool.map(
            lambda rank: connect(meeting, rank, CPU, store if not rank else None), (0, 1)
        )
        list(pool.map(collective_contract.check, ranks, (CPU, CPU)))
