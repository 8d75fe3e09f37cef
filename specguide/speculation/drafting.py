"""Owns what the step asks of a shape of drafts: a chain, a tree, or another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from specguide.drafts.layout import DraftLayout
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.kernels import LogitsShare
from specguide.sampling import AcceptState
from specguide.slots import Slots, SlotTable
from specguide.speculation.batch_sampling import Sampling
from specguide.speculation.forward_input import ForwardInput, Nodes
from specguide.speculation.passes import Beside, ForwardPasses
from specguide.speculation.results import VerifyOutput
from specguide.speculation.sampler import Sampler


class Accepted(NamedTuple):
    """What a verification leaves to draft from.

    verified: along the accepted path, which is a chain
    inputs:   the tokens of that chain
    features: [T, …], what the drafter reads of the target's layers for them
    beside:   prompts whose keys the drafter is to store, while the grammar has its turn
    """

    verified: VerifyOutput
    inputs: ForwardInput
    features: Tensor
    beside: Beside = None


class Drafting(Protocol):
    """Drafts of one shape, of all slots."""

    def clear(self, slots: Sequence[int]) -> None:
        """Forget the drafts of slots whose requests begin."""

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        """An iteration drafts nothing; a slot that was held, `num_accepted` int32 [B] -1, keeps
        the drafts that it has."""

    def nodes(self, slots: Slots, layout: DraftLayout) -> Nodes:
        """The golden tokens and the drafts, of `layout`, that are verified next."""

    def golden(self, inputs: ForwardInput) -> Nodes:
        """The nodes of a prefill, behind which there are no drafts yet."""

    def verify(
        self, logits: Tensor | LogitsShare, nodes: Nodes, features: Tensor, sampling: Sampling
    ) -> Accepted:
        """Choose a token after every node, and take the longest path that matches into the slots'
        state.

        logits:   [B · N, vocab_size]
        features: [T, …] of the forward's tokens
        """

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """Draft `layout` behind the new golden tokens, with the grammar beside.

        num_slots: bound of the slots in this iteration
        """


class DraftingParts(NamedTuple):
    """What drafts are made with."""

    passes: ForwardPasses
    sampler: Sampler
    state: SlotTable
    grammar: GrammarStream


def accept_state(parts: DraftingParts) -> AcceptState:
    """What a verification reads and writes of the slots."""
    state = parts.state
    return AcceptState(
        tokens=state.nodes.tokens,
        late=parts.grammar.held,
        active=state.active,
        lengths=state.lengths,
        max_lens=state.max_lens,
        end_ids=state.end_ids,
        num_accepted=state.nodes.num_accepted,
    )


DraftingFactory = Callable[[DraftingParts], Drafting]
