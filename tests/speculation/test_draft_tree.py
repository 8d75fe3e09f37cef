"""DraftTree: shapes, depths and paths, against definitions written out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.drafts.tree import DraftTree
from specguide.errors import InvalidParams


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 12) -> DraftTree:
    num_nodes = draw(st.integers(1, max_nodes))
    return DraftTree((-1, *(draw(st.integers(0, node - 1)) for node in range(1, num_nodes))))


def test_chain() -> None:
    tree = DraftTree.chain(3)
    assert tree.parents == (-1, 0, 1, 2)
    assert tree.num_nodes == 4 and tree.depths == (0, 1, 2, 3)
    assert DraftTree.chain(0).parents == (-1,)


def test_choices_in_any_order() -> None:
    tree = DraftTree.from_choices([[0, 0], [1], [0], [0, 1], [1, 0], [0, 0, 0]])
    assert tree.parents == (-1, 0, 0, 1, 1, 2, 3)
    assert tree.depths == (0, 1, 1, 2, 2, 2, 3)
    assert DraftTree.from_choices([[0], [0, 0]]) == DraftTree.chain(2)


@pytest.mark.parametrize(
    "choices", [[[0, 0]], [[0], [1, 0]], [[]], [[0], [0]], [[1]], [[0], [0, 2]], [[-1]]]
)
def test_choices_that_are_no_tree_are_refused(choices: list[list[int]]) -> None:
    with pytest.raises(InvalidParams, match="path"):
        DraftTree.from_choices(choices)


@pytest.mark.parametrize("parents", [(), (0,), (-1, 1), (-1, 0, 2), (-1, -1), (-1, 0, -2)])
def test_parents_that_are_no_tree_are_refused(parents: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParams, match="node"):
        DraftTree(parents)


@given(trees())
def test_paths_and_depths_agree(tree: DraftTree) -> None:
    for node in range(tree.num_nodes):
        path = tree.path(node)
        assert path[0] == 0 and path[-1] == node
        assert all(tree.parents[child] == parent for parent, child in pairwise(path))
        assert len(path) == tree.depths[node] + 1
