"""Owns the device state of each slot, and makes a forward pass's tensors from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from specguide.batch import Batch
from specguide.cache import place_chains, place_trees, slot_mapping
from specguide.kernels import SamplingTensors, on_device
from specguide.kernels.attention import ForwardContext, TreeKeys, attention_backend
from specguide.request import Request
from specguide.sampling import SlotAdjustments, SlotTrees
from specguide.speculation.draft_limits import DraftLimits
from specguide.speculation.prefill_plan import PrefillPlan, ScoredTokens

Slots = slice | Tensor
"""Which slots an iteration is about: int64 [B], or the first B of them, whose state is then read in
place."""


@dataclass(frozen=True, eq=False)
class Query:
    """The tokens of one target forward. B requests, N nodes to verify each, T tokens in all.

    slots:      whose they are
    input_ids:  int64 [T]
    context:    where they stand
    first_node: int64 [B], index among the T tokens of each request's first node
    start:      int64 [B], its position
    num_nodes:  N; the nodes of a request follow each other
    known_next: int64 [B, 1], the token after a node that is known, -1 for none; only where N = 1
    is_chain:   every token is a node
    scored:     those of the T tokens whose next one is scored
    trees:      of the B requests, where the nodes are those of draft trees; None: they are chains
    """

    slots: Slots
    input_ids: Tensor
    context: ForwardContext
    first_node: Tensor
    start: Tensor
    num_nodes: int
    known_next: Tensor | None = None
    is_chain: bool = False
    scored: ScoredTokens | None = None
    trees: SlotTrees | None = None

    @property
    def depths(self) -> Tensor:
        """How far each node is behind the first, int64 [N] or [B, N]."""
        return (
            torch.arange(self.num_nodes, device=self.start.device)
            if self.trees is None
            else self.trees.depths
        )

    def at_nodes(self, hidden: Tensor) -> Tensor:
        """Of hidden [T, …] that of the nodes, [B · N, …]."""
        return hidden if self.is_chain else hidden[self._node_index().flatten()]

    def said(self, target_tokens: Tensor) -> Tensor:
        """The token after each node, int [B, N]: where none is known, what the target says, int32
        [B, N]."""
        if self.known_next is not None:
            target_tokens = torch.where(self.known_next < 0, target_tokens, self.known_next)
        return target_tokens.clamp(min=0)

    def next_ids(self, target_tokens: Tensor) -> Tensor:
        """The token after each, int [T]: the next one's, and after a node what the target says,
        int32 [B, N]."""
        said = self.said(target_tokens)
        if self.is_chain:
            return said.flatten()
        next_ids = self.input_ids.roll(-1)
        next_ids[self._node_index()] = said.long()
        return next_ids

    def _node_index(self) -> Tensor:
        """int64 [B, N]: index among the T tokens of every node."""
        return self.first_node[:, None] + torch.arange(
            self.num_nodes, device=self.first_node.device
        )


MAX_END_IDS = 16
"""End tokens of a request that the device looks for; the host looks for all."""


class SlotState:
    """What the device knows of each slot, at fixed addresses.

    The last slot never has a request: what fills up a batch of fixed size stands there.

    ids:         int64 [num_slots], the slots' numbers
    active:      bool [num_slots], a request is there and has not ended
    lengths:     int64 [num_slots], positions whose keys are stored; the golden token's position
    max_lens:    int64 [num_slots], tokens, prompt and output, at which the request ends
    end_ids:     int32 [num_slots, MAX_END_IDS], tokens that end it, -2 for none
    block_table: int32 [num_slots, max_pages], -1 where there is no page
    sampling:    the slots' sampling parameters
    drafts:      what the slots' requests let be drafted
    """

    def __init__(
        self, num_slots: int, max_pages: int, page_size: int, vocab_size: int, device: torch.device
    ) -> None:
        self.ids = torch.arange(num_slots, device=device)
        self.active = torch.zeros(num_slots, dtype=torch.bool, device=device)
        self.lengths = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.max_lens = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.end_ids = torch.full((num_slots, MAX_END_IDS), -2, dtype=torch.int32, device=device)
        self.block_table = torch.full((num_slots, max_pages), -1, dtype=torch.int32, device=device)
        self.sampling = SamplingTensors.neutral(num_slots, device)
        self.drafts = DraftLimits(num_slots, device)
        self._page_size, self._vocab_size = page_size, vocab_size
        self._attention = attention_backend(device)
        self._adjusted: set[int] = set()

    @cached_property
    def adjustments(self) -> SlotAdjustments:
        """What the slots' requests do to their logits; allocated once it is first asked for."""
        return SlotAdjustments.neutral(len(self.ids), self._vocab_size, self.ids.device)

    def enter(self, batch: Batch, slots: Tensor) -> None:
        """Take in requests of a prefill; `slots` int64 [B] are theirs. They are active once their
        last chunk runs."""
        self._write_tables(slots, batch.block_tables)
        # Whatever runs along for a slot that is not active yet must not touch the keys that it has.
        self.lengths[slots] = on_device([chunk.end for chunk in batch.chunks], slots.device)
        self.active[slots] = on_device(
            [chunk.next_id is None for chunk in batch.chunks], slots.device
        )
        self.max_lens[slots] = on_device(
            [request.max_len for request in batch.requests], slots.device
        )
        ends = [
            [
                *(token for token in request.end_ids if token < self._vocab_size),
                *[-2] * MAX_END_IDS,
            ][:MAX_END_IDS]
            for request in batch.requests
        ]
        self.end_ids[slots] = on_device(ends, slots.device, torch.int32)
        params, seeds = [r.params for r in batch.requests], [r.seed for r in batch.requests]
        self.sampling.write(slots, SamplingTensors.from_params(params, seeds, slots.device))
        self.drafts.enter(batch.requests)
        for request in batch.requests:
            self._adjust(request)

    def _adjust(self, request: Request) -> None:
        """Write the slot's adjustments, which may still be those of an earlier request."""
        if request.adjustment is not None:
            self.adjustments.write(
                request.slot, request.adjustment, request.prompt_ids, request.output_ids
            )
            self._adjusted.add(request.slot)
        elif request.slot in self._adjusted:
            self.adjustments.clear(request.slot)
            self._adjusted.remove(request.slot)

    def grow(self, batch: Batch) -> None:
        """Take in the block tables that have changed."""
        grown = [index for index, has_grown in enumerate(batch.has_grown) if has_grown]
        if grown:
            slots = on_device([batch.slots[index] for index in grown], self.lengths.device)
            self._write_tables(slots, [batch.block_tables[index] for index in grown])

    def leave(self, slot: int) -> None:
        """Forget a slot: from now on nothing is stored for it and nothing accepted."""
        self.active[slot], self.lengths[slot] = False, 0
        self.block_table[slot] = -1

    def prefill(
        self, plan: PrefillPlan, max_query_len: int, scored: ScoredTokens | None = None
    ) -> Query:
        """The one node of each request is its last token.

        max_query_len: most tokens of one request, or more
        """
        index = torch.arange(len(plan.token_ids), device=plan.ends.device)
        is_token = index < plan.bounds[-1]
        sequence_ids = torch.searchsorted(plan.bounds[1:], index, right=True).clamp(
            max=len(plan.ends) - 1
        )
        position_ids = torch.where(is_token, index + (plan.ends - plan.bounds[1:])[sequence_ids], 0)
        block_table = self.block_table[plan.slots]
        mapping = slot_mapping(block_table, sequence_ids, position_ids, self._page_size)
        context = ForwardContext(
            position_ids=position_ids,
            block_table=block_table,
            query_start_loc=plan.bounds.int(),
            seq_lens=plan.ends.int(),
            slot_mapping=torch.where(is_token, mapping, -1),
            max_query_len=max_query_len,
            page_size=self._page_size,
            attention=self._attention,
        )
        return Query(
            slots=plan.slots,
            input_ids=plan.token_ids,
            context=context,
            first_node=plan.nodes,
            start=plan.ends - 1,
            num_nodes=1,
            known_next=plan.known_next[:, None],
            scored=scored,
        )

    def chain(self, tokens: Tensor, start: Tensor, slots: Slots, offset: int = 0) -> Query:
        """`tokens` int32 [B, N] at positions `start` int64 [B] + `offset` and following; every
        token is a node."""
        num_requests, num_nodes = tokens.shape
        block_table = self.block_table[slots]
        input_ids, position_ids, mapping, seq_lens = place_chains(
            tokens, start, block_table, self._page_size, offset
        )
        first_node, query_start_loc = _chain_starts(num_requests, num_nodes, start.device)
        context = ForwardContext(
            position_ids=position_ids,
            slot_mapping=mapping,
            block_table=block_table,
            query_start_loc=query_start_loc,
            seq_lens=seq_lens,
            max_query_len=num_nodes,
            page_size=self._page_size,
            attention=self._attention,
        )
        return Query(
            slots=slots,
            input_ids=input_ids,
            context=context,
            first_node=first_node,
            start=position_ids.view(num_requests, num_nodes)[:, 0],
            num_nodes=num_nodes,
            is_chain=True,
        )

    def tree(
        self,
        tokens: Tensor,
        start: Tensor,
        depths: Tensor,
        sees: Tensor,
        slots: Slots,
        offset: int = 0,
    ) -> Query:
        """The last Q of M nodes of draft trees, whose keys are stored one behind the other from
        `start` + `offset` on.

        tokens: int32 [B, Q], -1 for none
        start:  int64 [B]
        depths: int64 [B, M] or [M], positions of the nodes behind `start` + `offset`
        sees:   bool [B, Q, M], as TreeKeys
        """
        num_requests, num_own = tokens.shape
        block_table = self.block_table[slots]
        input_ids, position_ids, mapping, seq_lens, positions = place_trees(
            tokens, start, depths, block_table, self._page_size, offset
        )
        first_node, query_start_loc = _chain_starts(num_requests, num_own, start.device)
        context = ForwardContext(
            position_ids=position_ids,
            slot_mapping=mapping,
            block_table=block_table,
            query_start_loc=query_start_loc,
            seq_lens=seq_lens,
            max_query_len=num_own,
            page_size=self._page_size,
            attention=self._attention,
            tree=TreeKeys(sees, positions),
        )
        return Query(
            slots=slots,
            input_ids=input_ids,
            context=context,
            first_node=first_node,
            start=position_ids.view(num_requests, num_own)[:, 0],
            num_nodes=num_own,
            is_chain=True,
        )

    def _write_tables(self, slots: Tensor, tables: Sequence[Sequence[int]]) -> None:
        """A table only grows until its slot is left, so columns beyond the longest one are -1
        already."""
        num_pages = max(map(len, tables))
        rows = [[*pages, *[-1] * (num_pages - len(pages))] for pages in tables]
        self.block_table[slots, :num_pages] = on_device(rows, slots.device, torch.int32)


@cache
def _chain_starts(num_requests: int, num_nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Index of the first token of each of B equally long chains, int64 [B]; with the end of all,
    int32 [B + 1]."""
    starts = torch.arange(num_requests + 1, device=device) * num_nodes
    return starts[:-1], starts.int()
