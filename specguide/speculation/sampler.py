"""Owns the choice of tokens from logits: the target's token after each node, and the drafts."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.kernels import (
    BitmaskRows,
    LogitsShare,
    masked_argmax,
    masked_argmax_of_shares,
    masked_sample,
    masked_top_k,
)
from specguide.sampling import adjust_logits
from specguide.slots import SlotTable
from specguide.speculation.batch_sampling import Sampling, SamplingKind
from specguide.speculation.forward_input import Nodes


class Sampler(Protocol):
    """Chooses tokens. An iteration calls `choose` first, then `draft` or `children`.

    guided_drafts: drafts are chosen among the tokens that the bitmask rows allow; False: among all
                   tokens, so that only verification is guided
    """

    guided_drafts: bool

    def choose(self, logits: Tensor | LogitsShare, nodes: Nodes, sampling: Sampling) -> Tensor:
        """The target's token after every node, int32 [B, N]; -1 where nothing is allowed.

        logits: [B · N, vocab_size]; if all requests are greedy, they may be this rank's share
        """

    def draft(
        self,
        logits: Tensor | LogitsShare,
        rows: BitmaskRows | None,
        slots: Tensor,
        num_before: int | Tensor,
        ids: Tensor | None,
    ) -> Tensor:
        """The likeliest draft behind each of B nodes, int32 [B]; -1 where nothing is allowed.

        logits: [B, draft_vocab_size], or this rank's share
        slots:  int64 [B]
        num_before: number of drafts between the golden token and these drafts, or int32 [B]
        ids:    int32 [draft_vocab_size], target id of each draft id; None where they are the same
        """

    def children(
        self,
        logits: Tensor,
        rows: BitmaskRows | None,
        slots: Tensor,
        num_before: int,
        num_children: int,
        ids: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The likeliest drafts behind each of B · w nodes: tokens int32 and log-probabilities
        [B, w, num_children]; -1 and -inf where there is none. Parameters as in `draft`."""


class MaskedSampler:
    """A `Sampler` that reads the grammar's bitmask rows and the slots' sampling parameters."""

    def __init__(
        self, grammar: GrammarStream, state: SlotTable, *, guided_drafts: bool = True
    ) -> None:
        self.guided_drafts = guided_drafts
        self._state = state

    def choose(self, logits: Tensor | LogitsShare, nodes: Nodes, sampling: Sampling) -> Tensor:
        inputs, rows = nodes.inputs, nodes.rows
        if isinstance(logits, LogitsShare):
            return masked_argmax_of_shares(logits, rows).view(-1, inputs.num_nodes)
        if sampling.kind >= SamplingKind.ADJUSTED:
            logits = adjust_logits(
                logits,
                self._state.ids[inputs.slots],
                nodes.paths(),
                inputs.start,
                self._state.adjustments,
                rows,
            )
        if sampling.used.temperature is None:
            tokens = masked_argmax(logits, rows)
        else:
            slots = self._state.ids[inputs.slots].repeat_interleave(inputs.num_nodes)
            chosen = self._state.sampling.select(slots, sampling.used)
            positions = (inputs.start[:, None] + 1 + nodes.depths).flatten()
            tokens = masked_sample(logits, rows, chosen, positions)
        return tokens.view(-1, inputs.num_nodes)

    def draft(
        self,
        logits: Tensor | LogitsShare,
        rows: BitmaskRows | None,
        slots: Tensor,
        num_before: int | Tensor,
        ids: Tensor | None,
    ) -> Tensor:
        rows = rows if self.guided_drafts else None
        if isinstance(logits, LogitsShare):
            return masked_argmax_of_shares(logits, rows, ids)
        return masked_argmax(logits, rows, ids)

    def children(
        self,
        logits: Tensor,
        rows: BitmaskRows | None,
        slots: Tensor,
        num_before: int,
        num_children: int,
        ids: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        rows = rows if self.guided_drafts else None
        shape = (len(slots), -1, num_children)
        tokens, logprobs = masked_top_k(logits, rows, ids, num_children)
        return tokens.view(shape), logprobs.view(shape)
