"""Sums over ranks, each rank's kernel in a stream or a thread of its own on one device, against
plain torch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from gpu_case import DEVICE, IS_INTERPRETED, to_device
from torch import Tensor

from specguide.kernels import (
    BitmaskRows,
    LogitsShare,
    Peers,
    add_rms_norm,
    masked_argmax_of_shares,
    peers,
    pointwise,
    reference,
    sum_over_ranks,
)
from specguide.kernels.peers import NOTHING, peers_num_bytes, rows_each
from specguide.kernels.shares import NUM_WORDS
from specguide.kernels.shares import masked_argmax_of_shares as masked_argmax_of_shares_twin

pytestmark = [pytest.mark.gpu, pytest.mark.small]
SHAPE = (24, 160)


def ranks_of(
    dtype: torch.dtype,
    device: torch.device,
    most_polls: int = 1 << 29,
    shape: tuple[int, int] = SHAPE,
    num_ranks: int = 2,
) -> list[Peers]:
    num_bytes, ranks = peers_num_bytes(num_ranks, shape, dtype), range(num_ranks)
    memory = [torch.zeros(num_bytes, dtype=torch.uint8, device=device) for _ in ranks]
    aborted = torch.zeros(1, dtype=torch.int32, device=device)
    return [Peers.over(rank, memory, shape, dtype, aborted, most_polls) for rank in ranks]


def sent(values: Tensor, peers: Peers) -> Tensor:
    """The bits of values, as they travel."""
    bits = values.to(peers.dtype).view(peers.buffers[0].dtype)
    return bits.masked_fill(bits == NOTHING[bits.dtype], 0)


def leave(values: Tensor, reader: Peers, writer: int = 1, rows: Tensor | None = None) -> None:
    """Write what a rank's kernel would for another rank, whose next turn it is.

    rows: these rows alone; None: all
    """
    row = torch.arange(len(values), device=values.device) if rows is None else rows
    turn = reader.turns[row // rows_each(values.shape[1])] & 1
    reader.buffers[reader.rank][writer, turn, row] = sent(values, reader)[row]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("num_parts", [1, 3])
def test_a_rank_adds_what_the_other_leaves_it(dtype: torch.dtype, num_parts: int) -> None:
    torch.manual_seed(0)
    (mine, theirs), twin = ranks_of(dtype, DEVICE), ranks_of(dtype, torch.device("cpu"))[0]
    for num_rows in (5, 24, 1, 7):
        parts = torch.randn(num_parts, num_rows, SHAPE[1])
        parts = parts if num_parts > 1 else parts.to(dtype)
        parts[0, 0, :3] = 0.0 if num_parts > 1 else -0.0
        other = torch.randn(num_rows, SHAPE[1]).to(dtype)
        leave(other.to(DEVICE), mine)
        leave(other, twin)
        found = sum_over_ranks(parts.to(DEVICE), mine)
        assert torch.equal(found.cpu(), peers.sum_over_ranks(parts, twin))
        written = theirs.buffers[1][0].cpu()
        assert torch.equal(written, twin.buffers[1][0])
        assert (mine.buffers[0] == NOTHING[mine.buffers[0].dtype]).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_norm_adds_what_the_other_rank_leaves(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    mine, twin = ranks_of(dtype, DEVICE)[0], ranks_of(dtype, torch.device("cpu"))[0]
    weight = torch.randn(SHAPE[1]).to(dtype)
    for num_rows in (3, 8, 2):
        residual, part, other = (torch.randn(num_rows, SHAPE[1]).to(dtype) for _ in range(3))
        leave(other.to(DEVICE), mine)
        leave(other, twin)
        on_device = (it.to(DEVICE) for it in (residual, part[None], weight))
        found = add_rms_norm(*on_device, 1e-5, peers=mine)
        expected = pointwise.add_rms_norm(residual, part[None], weight, 1e-5, peers=twin)
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one.cpu(), two, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize(("dtype", "rank"), [(torch.bfloat16, 0), (torch.float32, 2)], ids=str)
def test_of_four_ranks_one_adds_up_each_row(dtype: torch.dtype, rank: int) -> None:
    torch.manual_seed(0)
    shape = (96, 4096)
    ranks = ranks_of(dtype, DEVICE, shape=shape, num_ranks=4)
    mine = ranks[rank]
    others = [it for it in range(4) if it != rank]
    for num_rows in (90, 3, 96):
        parts = torch.randn(4, num_rows, shape[1]).to(dtype)
        parts[:, 0, :3] = -0.0
        total = sum(parts.float()).to(dtype)
        row = torch.arange(num_rows)
        has_owners = mine.has_owners(num_rows)
        assert has_owners == (num_rows > 3)
        owns = row[row % 4 == rank] if has_owners else row
        turn = (mine.turns[row.to(DEVICE)] & 1).cpu()
        for other in others:
            leave(parts[other].to(DEVICE), mine, other, owns.to(DEVICE))
            if has_owners:
                leave(total.to(DEVICE), mine, other, row[row % 4 == other].to(DEVICE))
        found = sum_over_ranks(parts[rank, None].to(DEVICE), mine)
        assert torch.equal(found.cpu(), total)
        assert (mine.buffers[rank] == NOTHING[mine.buffers[rank].dtype]).all()
        for other in others:
            told = mine.buffers[other][rank].cpu()[turn, row]
            if has_owners:
                asked = row[row % 4 == other]
                assert torch.equal(told[asked], sent(parts[rank], mine)[asked])
            answer = total if has_owners else parts[rank]
            assert torch.equal(told[owns], sent(answer, mine)[owns])


def test_a_rank_that_does_not_come_is_not_waited_for_for_ever() -> None:
    mine = ranks_of(torch.float32, DEVICE, 20)[0]
    sum_over_ranks(torch.randn(1, 2, SHAPE[1], device=DEVICE), mine)
    assert mine.aborted.item()


def test_a_wait_ends_when_it_is_aborted() -> None:
    mine = ranks_of(torch.float32, DEVICE, 1000)[0]
    mine.aborted.fill_(1)
    sum_over_ranks(torch.randn(1, 2, SHAPE[1], device=DEVICE), mine)


@pytest.mark.skipif(IS_INTERPRETED, reason="needs kernels that run at the same time")
@pytest.mark.parametrize(("num_ranks", "shape"), [(2, SHAPE), (4, (100, 4096))])
def test_kernels_of_ranks_wait_for_one_another(num_ranks: int, shape: tuple[int, int]) -> None:
    """A kernel that waits may keep CUDA from loading another one, and from new memory. So each
    rank's is loaded first, on its stream: the very kernel, which Triton compiles anew where the
    number of polls is no multiple of 16. Waits end after seconds."""
    torch.manual_seed(0)
    streams = [torch.cuda.Stream() for _ in range(num_ranks)]
    made = partial(ranks_of, torch.bfloat16, DEVICE, shape=shape, num_ranks=num_ranks)
    first, ranks = made(most_polls=16), made(most_polls=1 << 22)
    for num_rows in (1, shape[0]):
        zeros = torch.zeros(1, num_rows, shape[1], device=DEVICE).bfloat16()
        torch.cuda.synchronize()
        for its, stream in zip(first, streams, strict=True):
            with torch.cuda.stream(stream):
                sum_over_ranks(zeros, its)
            torch.cuda.synchronize()
    for num_rows in [1, shape[0], 5] * 40:
        parts = torch.randn(num_ranks, 1, num_rows, shape[1], device=DEVICE).bfloat16()
        torch.cuda.synchronize()
        found = []
        for rank, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                found.append(sum_over_ranks(parts[rank], ranks[rank]))
        torch.cuda.synchronize()
        expected = sum(parts[:, 0].float()).bfloat16()
        assert all(torch.equal(it, expected) for it in found)
    assert not ranks[0].aborted.item()


def shares(logits: Tensor, both: list[Peers]) -> list[LogitsShare]:
    half = logits.shape[1] // 2
    return [
        LogitsShare(logits[:, rank * half : (rank + 1) * half].contiguous(), rank * half, its)
        for rank, its in enumerate(both)
    ]


def draft_case(is_pruned: bool) -> tuple[Tensor, BitmaskRows, Tensor | None]:
    """Rows that allow some tokens, nothing, one that no draft is, and all."""
    torch.manual_seed(0)
    vocab_size = 4096
    logits = torch.randn(6, 1024 if is_pruned else vocab_size).round(decimals=1)
    bitmask = torch.randint(-(2**31), 2**31 - 1, (6, vocab_size // 32), dtype=torch.int32)
    bitmask[1], bitmask[2] = 0, 0
    bitmask[2, -1] = 1 << 30
    guided = torch.tensor([1, 1, 1, 1, 0, 1], dtype=torch.uint8)
    ids = torch.randperm(4000)[:1024].sort().values.int() if is_pruned else None
    return logits, BitmaskRows(bitmask, guided, torch.tensor([0, 1, 2, 3, 4, 4])), ids


@pytest.mark.parametrize("is_pruned", [False, True])
@pytest.mark.parametrize("has_rows", [False, True])
def test_ranks_choose_as_one_that_has_all_logits(is_pruned: bool, has_rows: bool) -> None:
    logits, rows, ids = draft_case(is_pruned)
    rows = rows if has_rows else None
    expected = reference.masked_argmax(logits, rows, ids)
    twins = shares(logits, ranks_of(torch.float32, torch.device("cpu"), shape=(8, NUM_WORDS)))
    with ThreadPoolExecutor(2) as pool:
        choose = partial(masked_argmax_of_shares_twin, rows=rows, target_ids=ids)
        for found in pool.map(choose, twins):
            assert torch.equal(found, expected)
    both = ranks_of(torch.float32, DEVICE, shape=(8, NUM_WORDS))
    mine, other = shares(logits.to(DEVICE), both)
    first = logits[:, : logits.shape[1] // 2]
    best, place, is_reached = reference.best_of_rows(
        other.values.cpu(), other.rows(rows, ids), None if ids is None else other.ids(ids)
    )
    told = torch.stack([best.view(torch.int32), place.int() + first.shape[1], is_reached.int()], 1)
    told = torch.nn.functional.pad(told, (0, NUM_WORDS - 3))
    both[0].buffers[0][1, 0, : len(told)] = told.masked_fill(told == -(2**31), 0).to(DEVICE)
    found = masked_argmax_of_shares(mine, to_device(rows), to_device(ids))
    assert torch.equal(found.cpu(), expected)
    assert (both[0].buffers[0] == -(2**31)).all()
