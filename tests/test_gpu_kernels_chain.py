"""The Triton bookkeeping of chains against its plain-torch twins, which the engine runs on a CPU."""

from __future__ import annotations

import pytest
import torch
from gpu_case import to_device

from specguide.guided.buffers import GuideBuffers
from specguide.kernels import accept_chains, place_chains
from specguide.spec.chain_sampler import ChainSampler
from specguide.spec.slots import SlotState

pytestmark = pytest.mark.gpu

NUM_SLOTS, MAX_PAGES, PAGE_SIZE = 12, 9, 16


def slot_state(seed: int) -> SlotState:
    """Some slots with pages, some without; lengths up to the end of the table."""
    generator = torch.Generator().manual_seed(seed)
    state = SlotState(NUM_SLOTS, MAX_PAGES, PAGE_SIZE, torch.device("cpu"))
    pages = torch.randperm(NUM_SLOTS * MAX_PAGES, generator=generator).view(NUM_SLOTS, MAX_PAGES)
    held = torch.randint(0, MAX_PAGES + 1, (NUM_SLOTS, 1), generator=generator)
    state.block_table[:] = torch.where(torch.arange(MAX_PAGES) < held, pages, -1)
    state.lengths[:] = torch.randint(0, MAX_PAGES * PAGE_SIZE - 8, (NUM_SLOTS,), generator=generator)
    state.max_lens[:] = state.lengths + torch.randint(2, 8, (NUM_SLOTS,), generator=generator)
    state.end_ids[:, 0] = 3
    state.active[:] = torch.rand(NUM_SLOTS, generator=generator) < 0.8
    return state


@pytest.mark.parametrize("num_nodes", [1, 3, 4])
def test_chains_are_placed_as_on_a_cpu(num_nodes: int) -> None:
    state, slots = slot_state(num_nodes), torch.tensor([7, 0, 3, 11, 2])
    wanted = state.chain(torch.zeros(len(slots), num_nodes), state.lengths[slots], slots).context
    found = place_chains(to_device(state.lengths[slots]), to_device(slots), to_device(state.block_table), num_nodes,
                         PAGE_SIZE)
    expected = wanted.position_ids, wanted.slot_mapping, wanted.seq_lens, wanted.block_table
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and torch.equal(one.cpu(), other)


@pytest.mark.parametrize("num_nodes", [1, 4])
def test_chains_are_accepted_as_on_a_cpu(num_nodes: int) -> None:
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        state, slots = slot_state(seed), torch.randperm(NUM_SLOTS, generator=generator)[:9]
        buffers = GuideBuffers.allocate(NUM_SLOTS, 4, 2, torch.device("cpu"))
        buffers.tokens[:] = torch.randint(-1, 4, buffers.tokens.shape, generator=generator)
        buffers.held[:] = torch.rand(NUM_SLOTS, generator=generator) < 0.2
        said = torch.randint(-1, 4, (len(slots), num_nodes), generator=generator, dtype=torch.int32)
        query = state.chain(torch.zeros_like(said), state.lengths[slots], slots)
        written = dict(tokens=buffers.tokens, late=buffers.held, active=state.active, lengths=state.lengths,
                       max_lens=state.max_lens, end_ids=state.end_ids, slot_num_accepted=buffers.num_accepted)
        live = {name: to_device(tensor) for name, tensor in written.items()}
        found = accept_chains(to_device(said), to_device(slots), to_device(query.start), **live)
        assert torch.equal(found.cpu(), ChainSampler(buffers, state).accept(said, query))
        for name, tensor in written.items():
            assert torch.equal(live[name].cpu(), tensor), name
