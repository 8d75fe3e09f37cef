"""Layouts of drafts, as plain data."""

from __future__ import annotations

import pickle

from specguide.drafts.layout import NO_DRAFTS, DraftLayout, ProposedChain
from specguide.drafts.tree import DraftTree, DynamicTree


def test_a_chain_has_a_place_and_a_stage_for_each_node() -> None:
    layout = DraftLayout.chain(num_model=3, num_forced=2)
    assert layout.parents == (-1, 0, 1, 2, 3, 4)
    assert layout.stages == (0, 1, 2, 3, 4, 5, 6)
    assert (layout.num_nodes, layout.num_places, layout.num_positions) == (6, 6, 5)
    assert type(layout) is ProposedChain and layout.takes_processors


def test_a_tree_has_places_for_all_that_the_grammar_walks_over() -> None:
    tree = DynamicTree(top_k=4, depth=3, num_nodes=12)
    layout = tree.layout()
    assert layout.parents is None and layout.growth == tree.expansion
    assert layout.stages == tree.expansion.stage_begins
    assert (layout.num_nodes, layout.num_places, layout.num_drafts) == (12, 20, 3)
    assert layout.num_positions == 11 and not layout.takes_processors


def test_a_tree_of_fixed_shape_knows_its_parents() -> None:
    tree = DraftTree.from_choices([[0], [1], [0, 0]])
    assert tree.layout().parents == tree.parents == (-1, 0, 0, 1)


def test_layouts_can_be_sent_and_compared() -> None:
    assert DraftLayout.chain() == NO_DRAFTS and NO_DRAFTS.levels == (NO_DRAFTS,)
    for layout in (DraftLayout.chain(3, 0, 8), DynamicTree().layout()):
        copy = pickle.loads(pickle.dumps(layout))
        assert copy == layout and hash(copy) == hash(layout) and copy.levels == layout.levels
