"""Owns the table of draft shapes: which classes make, verify and walk over the drafts of each
layout."""

from __future__ import annotations

from typing import NamedTuple

from specguide.drafts.layout import DraftLayout, ProposedChain
from specguide.drafts.tree_layout import TreeLayout
from specguide.guided.grammar_stream.walk_shapes import ChainWalks, ProposedChainWalks, TreeWalks
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import DraftingFactory
from specguide.speculation.proposals import ProposedChains
from specguide.speculation.trees import Trees


class Shape(NamedTuple):
    """The classes that handle the drafts of a layout.

    drafting: used by the step, unless its drafter has a Drafting of its own
    walks:    used by the grammar stream
    """

    drafting: DraftingFactory
    walks: type[ChainWalks]


_SHAPES: dict[type[DraftLayout], Shape] = {
    DraftLayout: Shape(Chains, ChainWalks),
    ProposedChain: Shape(ProposedChains, ProposedChainWalks),
    TreeLayout: Shape(Trees, TreeWalks),
}


def shape_of(layout: DraftLayout) -> Shape:
    """The shape of the layout's class, or of its nearest base class that has one."""
    return next(_SHAPES[kind] for kind in type(layout).__mro__ if kind in _SHAPES)
