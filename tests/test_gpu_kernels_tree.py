"""The Triton bookkeeping of draft trees against its plain-torch twins, which the engine runs on a CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gpu_case import to_device
from torch import Tensor

from specguide.cache import move_keys, tensors
from specguide.sampling import SlotTrees, accept, accept_trees
from specguide.spec.slots import MAX_END_IDS

pytestmark = pytest.mark.gpu

NUM_SLOTS, NUM_PLACES, NUM_NODES, DEPTH = 12, 9, 7, 3


def random_trees(generator: torch.Generator) -> SlotTrees:
    """Few tokens, so that paths match; siblings differ."""
    trees = SlotTrees.empty(NUM_SLOTS, NUM_NODES, torch.device("cpu"))
    for slot in range(NUM_SLOTS):
        for node in range(1, NUM_NODES):
            parent = int(torch.randint(0, node, (), generator=generator))
            parent = parent if trees.depths[slot, parent] < DEPTH else 0
            trees.parents[slot, node], trees.depths[slot, node] = parent, trees.depths[slot, parent] + 1
            taken = trees.tokens[slot, 1:node][trees.parents[slot, 1:node] == parent].tolist()
            token = int(torch.randint(0, 3, (), generator=generator))
            trees.tokens[slot, node] = -1 if token in taken else token
    return replace(trees, places=torch.randint(1, NUM_PLACES, trees.places.shape, generator=generator))


def test_trees_are_accepted_as_on_a_cpu() -> None:
    depths = set()
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)

        def random(low: int, high: int, *shape: int, generator: torch.Generator = generator) -> Tensor:
            return torch.randint(low, high, shape, generator=generator)

        slots, trees = torch.randperm(NUM_SLOTS, generator=generator)[:9], random_trees(generator)
        lengths = random(0, 90, NUM_SLOTS)
        end_ids = torch.full((NUM_SLOTS, MAX_END_IDS), -2, dtype=torch.int32)
        end_ids[:, 0] = random(0, 9, NUM_SLOTS).int()
        written = dict(
            tokens=random(-1, 4, NUM_SLOTS, NUM_PLACES).int(), accepted_path=random(0, 9, NUM_SLOTS, DEPTH).int(),
            late=(random(0, 5, NUM_SLOTS) == 0).to(torch.uint8), active=random(0, 5, NUM_SLOTS) > 0, lengths=lengths,
            max_lens=lengths + random(1, 8, NUM_SLOTS), end_ids=end_ids,
            slot_num_accepted=random(0, 4, NUM_SLOTS).int())
        live = {name: to_device(tensor) for name, tensor in written.items()}
        said, start = random(-1, 3, len(slots), NUM_NODES).int(), lengths[slots]
        found = accept_trees(*map(to_device, (said, slots, start, trees)), **live)
        expected = accept.accept_trees(said, slots, start, trees, **written)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and torch.equal(one.cpu(), other)
        for name, tensor in written.items():
            assert torch.equal(live[name].cpu(), tensor), name
        depths |= set(expected[0].tolist())
    assert depths == {-1, 0, 1, 2, 3}


@pytest.mark.parametrize("heads", [(8, 128), (3, 40)])
def test_keys_are_moved_as_on_a_cpu(heads: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    memory = torch.randn(2, 3, 10, 16, *heads, generator=generator)
    live = to_device(memory)
    places = torch.randperm(160, generator=generator)[:7 * 16].view(7, 16)
    nodes = torch.rand(7, 15, generator=generator).argsort(1)[:, :DEPTH].sort(1).values + 1
    nodes[2, 1:], nodes[4] = -1, -1
    sources = places.gather(1, nodes.clamp(min=0)).masked_fill(nodes < 0, -1)
    destinations = places[:, 1:DEPTH + 1]
    move_keys(live, to_device(sources), to_device(destinations))
    tensors.move_keys(memory, sources, destinations)
    assert torch.equal(live.cpu(), memory)
