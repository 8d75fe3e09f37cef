"""Rows that a rank sends to another, a stream or a thread each on one device."""

from __future__ import annotations

import pytest
import torch
from gpu_case import DEVICE, to_device
from torch import Tensor

from specguide.kernels import RowChannel, row_channel, send_rows, take_rows
from specguide.kernels.row_channel import row_channel_num_bytes

pytestmark = [pytest.mark.gpu, pytest.mark.small]
NUM_WORDS = 70


def channels(device: torch.device, most_polls: int = 1 << 29) -> list[RowChannel]:
    num_bytes = row_channel_num_bytes(20, NUM_WORDS)
    memory = [torch.zeros(num_bytes, dtype=torch.uint8, device=device) for _ in range(2)]
    aborted = torch.zeros(1, dtype=torch.int32, device=device)
    return [RowChannel.over(rank, memory, NUM_WORDS, aborted, most_polls) for rank in range(2)]


def rows() -> tuple[Tensor, Tensor, Tensor]:
    bitmask = torch.randint(-(2**31), 2**31 - 1, (2, 5, NUM_WORDS), dtype=torch.int32)
    guided = torch.randint(0, 2, (2, 5), dtype=torch.uint8)
    return bitmask, guided, torch.randint(0, 2, (5,), dtype=torch.uint8)


@pytest.mark.parametrize("is_twin", [False, True])
def test_rows_are_taken_as_they_were_sent(is_twin: bool) -> None:
    torch.manual_seed(0)
    send, take = (
        (row_channel.send_rows, row_channel.take_rows) if is_twin else (send_rows, take_rows)
    )
    device = torch.device("cpu") if is_twin else DEVICE
    sender, receiver = channels(device)
    before = torch.zeros(2, 5, NUM_WORDS, dtype=torch.int32)
    taken = [before.to(device), *(torch.zeros_like(it).to(device) for it in rows()[1:])]
    for first_place in (0, 10, 0, 0, 10, 0):
        bitmask, guided, held = rows()
        send(
            *(it if is_twin else to_device(it) for it in (bitmask, guided, held)),
            sender,
            first_place,
        )
        take(*taken, receiver, first_place)
        before = torch.where(guided[:, :, None] != 0, bitmask, before)
        for found, expected in zip(taken, (before, guided, held), strict=True):
            assert torch.equal(found.cpu(), expected)


def test_fewer_slots_take_turns_of_their_own() -> None:
    torch.manual_seed(0)
    sender, receiver = channels(DEVICE)
    for num_slots in (5, 2, 5, 1, 3):
        bitmask, guided, held = (to_device(it) for it in rows())
        some = bitmask[:, :num_slots], guided[:, :num_slots], held[:num_slots]
        taken = [torch.zeros_like(it) for it in some]
        # A row's place does not depend on how many there are.
        for node in range(2):
            send_rows(some[0][node, None], some[1][node, None], some[2], sender, 5 * node)
            its = taken[0][node, None], taken[1][node, None], taken[2]
            take_rows(*its, receiver, 5 * node)
        assert torch.equal(taken[1], some[1]) and torch.equal(taken[2], some[2])
        assert torch.equal(taken[0], some[0] * some[1][:, :, None])


def test_rows_that_do_not_come_are_not_waited_for_for_ever() -> None:
    _, receiver = channels(DEVICE, 20)
    take_rows(*(to_device(it) for it in rows()), receiver, 0)
