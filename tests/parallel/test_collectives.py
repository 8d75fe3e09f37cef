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
    collective_contract.check_in_processes("cpu", shares_memory=False)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_threads_that_share_memory(num_ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    thread_memory.put_in(monkeypatch, num_ranks)
    meeting, store = Meeting.open(num_ranks, 60.0)
    with ThreadPoolExecutor(num_ranks) as pool:
        ranks = pool.map(
            lambda rank: connect(meeting, rank, CPU, store if not rank else None), range(num_ranks)
        )
        list(pool.map(collective_contract.check, ranks, [CPU] * num_ranks))
