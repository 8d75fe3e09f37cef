"""Owns how ranks find one another, and make a group of processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from specguide.parallel.collectives import GlooCollectives, GroupCollectives
from specguide.parallel.ranks import Ranks

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of one host meet.

    port:      of rank 0's store
    size:      how many ranks come
    timeout_s: longest that one waits for another, seconds
    """

    port: int
    size: int
    timeout_s: float

    @classmethod
    def open(cls, size: int, timeout_s: float) -> tuple[Meeting, Any]:
        """By rank 0, and the store that it is to be held by."""
        store = dist.TCPStore(
            _HOST, 0, size, True, timedelta(seconds=timeout_s), wait_for_workers=False
        )
        return cls(store.port, size, timeout_s), store


def connect(
    meeting: Meeting,
    rank: int,
    device: torch.device,
    store: Any = None,
    *,
    has_whole_experts: bool = False,
) -> Ranks:
    """Join the others; each rank has a device of its own. Waits for all of them.

    store: rank 0's own
    has_whole_experts: see Ranks
    Raises torch's error where one does not come in time.
    """
    timeout = timedelta(seconds=meeting.timeout_s)
    if store is None:
        store = dist.TCPStore(_HOST, meeting.port, meeting.size, False, timeout)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        group = dist.ProcessGroupNCCL(store, rank, meeting.size, options)
        return Ranks(rank, meeting.size, GroupCollectives(group), has_whole_experts)
    kind: Any = dist.ProcessGroupGloo
    gloo = kind._Options()
    gloo._timeout = timeout
    gloo._devices = [kind.create_device(hostname=_HOST)]
    collectives = GlooCollectives(kind(store, rank, meeting.size, gloo))
    return Ranks(rank, meeting.size, collectives, has_whole_experts)
