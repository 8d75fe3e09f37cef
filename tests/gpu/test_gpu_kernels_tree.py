"""The Triton bookkeeping of draft trees against its plain-torch twins, which the engine runs on a
CPU."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from accept_states import accept_state, integers
from draft_trees import EXPANSIONS, grown
from gpu_case import DEVICE, seeds, to_device
from small_cases import small

from specguide import sampling
from specguide.cache import move_keys, place_nodes, tensors
from specguide.drafts.tree_layout import TreeExpansion
from specguide.sampling import AcceptState, Branches, Frontier, SlotTrees, accept, accept_drafts

pytestmark = pytest.mark.gpu

NUM_SLOTS, NUM_PLACES, NUM_NODES, DEPTH = 12, 9, 7, 3


def random_trees(generator: torch.Generator) -> SlotTrees:
    """Few tokens, so that paths match; siblings differ."""
    trees = SlotTrees.empty(NUM_SLOTS, NUM_NODES, torch.device("cpu"))
    for slot in range(NUM_SLOTS):
        for node in range(1, NUM_NODES):
            parent = int(torch.randint(0, node, (), generator=generator))
            parent = parent if trees.depths[slot, parent] < DEPTH else 0
            trees.parents[slot, node], trees.depths[slot, node] = (
                parent,
                trees.depths[slot, parent] + 1,
            )
            taken = trees.tokens[slot, 1:node][trees.parents[slot, 1:node] == parent].tolist()
            token = int(torch.randint(0, 3, (), generator=generator))
            trees.tokens[slot, node] = -1 if token in taken else token
    return replace(
        trees, places=torch.randint(1, NUM_PLACES, trees.places.shape, generator=generator)
    )


@pytest.mark.small
def test_trees_are_accepted_as_on_a_cpu() -> None:
    depths = set()
    for seed in seeds(40):
        generator = torch.Generator().manual_seed(seed)
        draw = integers(generator)
        slots, trees = torch.randperm(NUM_SLOTS, generator=generator)[:9], random_trees(generator)
        written = accept_state(draw, NUM_SLOTS, NUM_PLACES, draw(0, 9, NUM_SLOTS))
        accepted_path = draw(0, 9, NUM_SLOTS, DEPTH).int()
        live, live_path = AcceptState(*map(to_device, written)), to_device(accepted_path)
        num_nodes, depth = (NUM_NODES, DEPTH) if seed % 4 else (NUM_NODES - 2, DEPTH - 1)
        said, start = draw(-1, 3, len(slots), num_nodes).int(), written.lengths[slots]
        branches = Branches(to_device(trees), depth, live_path)
        found = accept_drafts(*map(to_device, (said, slots, start)), live, branches)
        branches = Branches(trees, depth, accepted_path)
        expected = accept.accept_drafts(said, slots, start, written, branches)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and torch.equal(one.cpu(), other)
        names = (*AcceptState._fields, "accepted_path")
        for name, one, other in zip(
            names, (*live, live_path), (*written, accepted_path), strict=True
        ):
            assert torch.equal(one.cpu(), other), name
        depths |= set(expected[0].tolist())
    assert depths == {-1, 0, 1, 2, 3}


@pytest.mark.parametrize(
    "expansion",
    [small(tree) if place in (0, 6, 9) else tree for place, tree in enumerate(EXPANSIONS)],
)
def test_trees_grow_as_on_a_cpu(expansion: TreeExpansion) -> None:
    for seed in seeds(5):
        expected, found = grown(expansion, seed), grown(expansion, seed, DEVICE.type, sampling)
        assert_equal(found[0], expected[0])
        for name, tensor in expected[1].items():
            assert torch.equal(found[1][name].cpu(), tensor), name
        for one, other in zip(found[2], expected[2], strict=True):
            assert_equal(one, other)


def assert_equal(found: SlotTrees | Frontier, expected: SlotTrees | Frontier) -> None:
    for field in fields(expected):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        assert one.dtype == other.dtype and torch.equal(one.cpu(), other), field.name


@pytest.mark.parametrize(("num_own", "num_nodes"), [(60, 60), (10, 40), (1, 1), small(3, 250)])
def test_trees_are_placed_as_on_a_cpu(num_own: int, num_nodes: int) -> None:
    draw = integers(torch.Generator().manual_seed(1))
    case = draw(-1, 9, 5, num_own).int(), draw(0, 200, 5), draw(-1, 30, 5, 12).int()
    for depths in (draw(0, 7, num_nodes), draw(0, 7, 5, num_nodes)):
        found = place_nodes(*map(to_device, case), 64, 1, to_device(depths))
        expected = tensors.place_nodes(*case, 64, 1, depths)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype and torch.equal(one.cpu(), other)


@pytest.mark.small
@pytest.mark.parametrize("heads", [(8, 128), (3, 40)])
def test_keys_are_moved_as_on_a_cpu(heads: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    memory = torch.randn(2, 3, 10, 16, *heads, generator=generator)
    live = to_device(memory)
    block_table = torch.randperm(10, generator=generator)[:9].view(3, 3).int()
    nodes = torch.rand(3, 15, generator=generator).argsort(1)[:, :DEPTH].sort(1).values + 1
    nodes[1, 1:], nodes[2] = -1, -1
    block_table[1, 2] = -1
    case = nodes, torch.tensor([20, 31, 3]), block_table
    move_keys(live, *map(to_device, case))
    before = memory.clone()
    tensors.move_keys(memory, *case)
    assert torch.equal(live.cpu(), memory) and not torch.equal(memory, before)
