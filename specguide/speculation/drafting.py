"""Owns Drafting, the interface between the step and a shape of drafts: chain, tree or another."""

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
    """The result of a verification, from which drafting goes on.

    verified: the output along the accepted path, which is a chain
    inputs:   the tokens of that chain
    features: [T, …], their aux hidden states, which the drafter reads
    beside:   chunks of prompts whose keys the drafter stores while the grammar works
    """

    verified: VerifyOutput
    inputs: ForwardInput
    features: Tensor
    beside: Beside = None


class Drafting(Protocol):
    """Makes and verifies drafts of one shape, for all slots."""

    def clear(self, slots: Sequence[int]) -> None:
        """Remove the drafts of slots whose requests begin."""

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        """Remove the slots' drafts, for an iteration that drafts nothing. A slot that was held,
        `num_accepted` int32 [B] -1, keeps its drafts."""

    def nodes(self, slots: Slots, layout: DraftLayout) -> Nodes:
        """The nodes to verify next: the golden tokens, and their drafts of `layout`."""

    def golden(self, inputs: ForwardInput) -> Nodes:
        """The nodes of a prefill, which have no drafts yet."""

    def verify(
        self, logits: Tensor | LogitsShare, nodes: Nodes, features: Tensor, sampling: Sampling
    ) -> Accepted:
        """Choose a token after every node, accept the longest path that matches, and update the
        slots' state.

        logits:   [B · N, vocab_size]
        features: [T, …], aux hidden states of the forward's tokens
        """

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """Draft `layout` behind the new golden tokens, while the grammar runs beside it.

        num_slots: the slots of this iteration are below it
        """


class DraftingParts(NamedTuple):
    """What a Drafting works with."""

    passes: ForwardPasses
    sampler: Sampler
    state: SlotTable
    grammar: GrammarStream


def accept_state(parts: DraftingParts) -> AcceptState:
    """The state of the slots that a verification reads and writes."""
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
