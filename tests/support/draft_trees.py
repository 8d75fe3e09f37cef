"""Draft trees of many shapes, engines that draft them, and trees grown from random scores."""

from __future__ import annotations

from types import ModuleType

import torch

from specguide import LLM, SpecConfig
from specguide.drafts.tree import DraftTree, DynamicTree
from specguide.drafts.tree_layout import TreeExpansion
from specguide.sampling import Frontier, GrowingTrees, SlotTrees, growth

TREES = {
    "dynamic": DynamicTree(top_k=4, depth=4, num_nodes=20),
    "wide": DynamicTree(top_k=10, depth=2, num_nodes=60),
    "deep": DynamicTree(top_k=2, depth=8, num_nodes=17),
    "one level": DynamicTree(top_k=3, depth=1, num_nodes=4),
    "static": DraftTree.from_choices(
        [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    ),
    "chain": DraftTree.chain(3),
}


def make(folders, models, tree: str, method: str = "eagle3", **options) -> LLM:
    return LLM(folders[0], spec=SpecConfig(method, models[method], tree=TREES[tree]), **options)


def _candidates(
    frontier: Frontier, expansion: TreeExpansion, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens int32 and log-probabilities of each node's children: of the first slot all are
    equal, of the second one child alone is allowed."""
    shape = (6, frontier.tokens.shape[1], expansion.num_children)
    logprobs = torch.randn(shape, generator=generator).log_softmax(-1)
    logprobs[0] = 0.0
    logprobs[1, :, 1:] = float("-inf")
    tokens = torch.randint(0, 9, logprobs.shape, generator=generator).int()
    return tokens.masked_fill(logprobs.isinf(), -1), logprobs


def grown(
    expansion: TreeExpansion, seed: int = 0, device: str = "cpu", module: ModuleType = growth
) -> tuple[SlotTrees, dict[str, torch.Tensor], list[Frontier]]:
    """Trees of some slots, from random scores, what the walk is told of them, and their frontiers;
    one slot is held."""
    generator = torch.Generator().manual_seed(seed)
    num_slots = 8
    frontiers = []
    slots = torch.randperm(num_slots, generator=generator)[:6].to(device)
    trees = SlotTrees.empty(
        num_slots, (expansion.whole or expansion).num_nodes, torch.device(device)
    )
    walk = {
        name: torch.full((num_slots, expansion.num_places), -7, dtype=torch.int32, device=device)
        for name in ("walk_tokens", "walk_parents")
    }
    num_model = (
        torch.randint(0, 2 * expansion.depth, (num_slots,), generator=generator).int().to(device)
    )
    guides = torch.arange(num_slots, device=device)
    guides[3] = num_slots - 1
    growing = GrowingTrees.empty(
        expansion, slots, torch.tensor([0, 2, -1, 1, 0, 3], dtype=torch.int32, device=device)
    )
    frontier = Frontier.root(torch.zeros(6, 1, dtype=torch.int32, device=device), guides[slots])
    for depth in range(1, expansion.depth + 1):
        tokens, logprobs = _candidates(frontier, expansion, generator)
        frontier = module.grow_trees(
            tokens.to(device),
            logprobs.to(device),
            frontier,
            growing,
            expansion,
            depth,
            num_model=num_model,
            row_slots=guides,
            **walk,
        )
        frontiers.append(frontier)
    module.finish_trees(growing, expansion, trees, **walk)
    return trees, {**walk, "slots": slots}, frontiers


EXPANSIONS = (
    *(
        shape.expansion
        for shape in (
            DynamicTree(3, 4, 14),
            DynamicTree(4, 3, 36),
            DynamicTree(2, 2, 7),
            DynamicTree(1, 5, 4),
            DynamicTree(),
            DynamicTree(16, 16, 128),
            TREES["static"],
            DraftTree.chain(3),
            DraftTree.from_choices([[0], [1], [2], [0, 0], [2, 0], [2, 1], [2, 0, 0]]),
        )
    ),
    *(level.growth for level in SpecConfig(tree=DynamicTree()).layout.levels[1:-1]),
    TREES["dynamic"].expansion.within(DynamicTree(5, 4, 30).expansion),
)
