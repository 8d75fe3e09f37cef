"""The Triton bookkeeping of chains against its plain-torch twins, which the engine runs on a
CPU."""

from __future__ import annotations

import pytest
import torch
from accept_states import accept_state, integers
from gpu_case import seeds, to_device
from small_cases import small

from specguide.cache import place_nodes, place_prompts, tensors
from specguide.kernels import BitmaskRows, pointwise, rows_behind
from specguide.sampling import (
    AcceptState,
    DraftedSlots,
    Pattern,
    accept,
    accept_by_pattern,
    accept_drafts,
    append_drafts,
    store_drafts,
    synthetic,
)

pytestmark = pytest.mark.gpu

NUM_SLOTS, MAX_PAGES, PAGE_SIZE, K = 12, 9, 16, 3


def block_table(generator: torch.Generator) -> torch.Tensor:
    """A block table in which some slots have all pages, some few, some none."""
    pages = torch.randperm(NUM_SLOTS * MAX_PAGES, generator=generator).view(NUM_SLOTS, MAX_PAGES)
    num_held = torch.randint(0, MAX_PAGES + 1, (NUM_SLOTS, 1), generator=generator)
    return torch.where(torch.arange(MAX_PAGES) < num_held, pages, -1).int()


@pytest.mark.parametrize("num_nodes", [1, small(3), 4])
def test_chains_are_placed_as_on_a_cpu(num_nodes: int) -> None:
    generator = torch.Generator().manual_seed(num_nodes)
    table = block_table(generator)
    tokens = torch.randint(-1, 99, (NUM_SLOTS, 6), generator=generator).int()[:, 1 : 1 + num_nodes]
    for offset in (0, 2):
        starts = torch.randint(
            0, MAX_PAGES * PAGE_SIZE - num_nodes - 2, (NUM_SLOTS, 3), generator=generator
        )
        wanted = tensors.place_nodes(tokens, starts[:, 1], table, PAGE_SIZE, offset)
        found = place_nodes(
            to_device(tokens), to_device(starts)[:, 1], to_device(table), PAGE_SIZE, offset
        )
        assert found[-1] is wanted[-1] is None
        for one, other in zip(found[:-1], wanted[:-1], strict=True):
            assert one.dtype == other.dtype and torch.equal(one.cpu(), other)


@pytest.mark.parametrize(
    ("num_chunks", "num_tokens"), [(1, 128), small(3, 300), (16, 512), (40, 600)]
)
def test_prompts_are_placed_as_on_a_cpu(num_chunks: int, num_tokens: int) -> None:
    generator = torch.Generator().manual_seed(num_chunks)
    table = block_table(generator)[torch.arange(num_chunks) % NUM_SLOTS]
    most = min(num_tokens // num_chunks, 100)
    lengths = torch.randint(0, most + 1, (num_chunks,), generator=generator)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    ends = lengths + torch.randint(0, 30, (num_chunks,), generator=generator)
    wanted = tensors.place_prompts(bounds, ends, table, PAGE_SIZE, num_tokens)
    found = place_prompts(*map(to_device, (bounds, ends, table)), PAGE_SIZE, num_tokens)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and torch.equal(one.cpu(), other)


@pytest.mark.parametrize("num_nodes", [1, small(K + 1)])
def test_chains_are_accepted_as_on_a_cpu(num_nodes: int) -> None:
    for seed in seeds(40):
        generator = torch.Generator().manual_seed(seed)
        draw = integers(generator)
        slots = torch.randperm(NUM_SLOTS, generator=generator)[:9]
        written = accept_state(draw, NUM_SLOTS, K + 1, torch.tensor(3))
        live = AcceptState(*map(to_device, written))
        said, start = draw(-1, 4, len(slots), num_nodes).int(), written.lengths[slots]
        found, path = accept_drafts(to_device(said), to_device(slots), to_device(start), live)
        expected, _ = accept.accept_drafts(said, slots, start, written)
        assert torch.equal(found.cpu(), expected) and path is None
        for name, one, other in zip(AcceptState._fields, live, written, strict=True):
            assert torch.equal(one.cpu(), other), name


@pytest.mark.small
def test_drafts_are_stored_as_on_a_cpu() -> None:
    slots, drafts = torch.tensor([7, 0, 3, 11]), torch.tensor([5, -1, 8, 9]).int()
    num_accepted, tokens = (
        torch.tensor([0, 3, -1, 1]).int(),
        torch.arange(NUM_SLOTS * 4).view(NUM_SLOTS, 4).int(),
    )
    live, limits = to_device(tokens), torch.full((NUM_SLOTS,), 2).int()
    limits[11] = 1
    store_drafts(
        to_device(drafts), 2, to_device(limits), to_device(num_accepted), to_device(slots), live
    )
    accept.store_drafts(drafts, 2, limits, num_accepted, slots, tokens)
    assert (
        torch.equal(live.cpu(), tokens)
        and tokens[7, 2] == 5
        and tokens[3, 2] == 14
        and tokens[11, 2] == -1
    )


@pytest.mark.small
def test_drafts_are_appended_as_on_a_cpu() -> None:
    generator = torch.Generator().manual_seed(1)
    for num_slots in (5, 200):
        slots = torch.randperm(num_slots, generator=generator)[: num_slots - 2]
        drafts = torch.randint(-1, 99, (len(slots),), generator=generator).int()
        num_accepted = torch.randint(-1, 4, (len(slots),), generator=generator).int()
        chain_len = torch.randint(0, 8, (num_slots,), generator=generator).int()
        tokens = torch.full((num_slots, 8), -1, dtype=torch.int32)
        live = to_device(tokens)
        append_drafts(*map(to_device, (drafts, chain_len, num_accepted, slots)), live)
        accept.append_drafts(drafts, chain_len, num_accepted, slots, tokens)
        assert torch.equal(live.cpu(), tokens)


@pytest.mark.small
@pytest.mark.parametrize("is_guided", [False, True])
def test_as_many_are_accepted_by_a_pattern_as_on_a_cpu(is_guided: bool) -> None:
    draw = integers(torch.Generator().manual_seed(2))
    num_requests, vocab_size, period = 9, 70, 5
    slots = torch.randperm(NUM_SLOTS)[:num_requests]
    rows = None
    if is_guided:
        bitmask = draw(-(2**31), 2**31, 50, 3).int()
        rows = BitmaskRows(bitmask, draw(0, 2, 50).to(torch.uint8), draw(0, 50, num_requests * 4))
    pattern = Pattern(draw(0, K + 1, period, NUM_SLOTS).int(), torch.tensor([period - 3]))
    live_pattern = Pattern(*map(to_device, pattern))
    for _ in range(period):
        state = DraftedSlots(
            tokens=draw(-1, vocab_size, NUM_SLOTS, 5).int(),
            late=(draw(0, 5, NUM_SLOTS) == 0).to(torch.uint8),
            active=draw(0, 5, NUM_SLOTS) > 0,
        )
        said = draw(0, vocab_size, num_requests, K + 1).int()
        live_state, live_said = DraftedSlots(*map(to_device, state)), to_device(said)
        live_rows = None if rows is None else BitmaskRows(*map(to_device, rows))
        accept_by_pattern(live_said, to_device(slots), live_state, live_pattern, live_rows)
        synthetic.accept_by_pattern(said, slots, state, pattern, rows)
        assert torch.equal(live_said.cpu(), said)
        assert torch.equal(live_state.tokens.cpu(), state.tokens)
        assert torch.equal(live_pattern.iteration.cpu(), pattern.iteration)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(("num_stretches", "size"), [small(3, 40), (130, 4096)])
def test_rows_behind_the_first_are_those_of_a_cpu(num_stretches, size, dtype) -> None:
    generator = torch.Generator().manual_seed(size)
    normed, features = (
        torch.randn(num_stretches * 4, size, generator=generator).to(dtype) for _ in range(2)
    )
    first = torch.arange(num_stretches) * 4
    behind = torch.randint(-1, 4, (num_stretches,), generator=generator).int()
    wanted = pointwise.rows_behind(normed, features, first, behind)
    found = rows_behind(*map(to_device, (normed, features, first, behind)))
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one.cpu(), other)
