"""Owns the input of a target forward: how its tokens are made from the slots' state, and which of
them are verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from specguide.cache import place_nodes, place_prompts
from specguide.kernels import BitmaskRows
from specguide.kernels.attention import (
    CAUSAL,
    AttentionMask,
    ForwardContext,
    OutputRows,
    StateRows,
    TreeMask,
)
from specguide.slots import Slots, SlotTable
from specguide.speculation.prefill_plan import PrefillPlan, ScoredTokens


@dataclass(frozen=True, eq=False)
class ForwardInput:
    """The tokens of one target forward. B requests, N nodes to verify each, T tokens in all.

    slots:      the slots of the B requests
    input_ids:  int64 [T]
    context:    positions and pages of the tokens
    first_node: int64 [B], index of each request's first node among the T tokens
    start:      int64 [B], position of that node
    num_nodes:  N; the nodes of a request follow each other
    known_next: int64 [B, 1], the token after the node where it is known, else -1; only where N = 1
    is_chain:   every token is a node
    scored:     the tokens of a prompt that are scored; None: none
    outputs:    the nodes, where only their hidden states are needed; None: those of all tokens
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
    outputs: OutputRows | None = None

    def at_nodes(self, hidden: Tensor) -> Tensor:
        """The rows of the nodes, [B · N, …], in `hidden` [T, …], which may have only the
        `outputs`."""
        if self.is_chain or self.outputs is not None:
            return hidden
        return hidden[self._node_index().flatten()]

    @property
    def unknown(self) -> Tensor:
        """A placeholder for the target's tokens where none of them is read: int32 [B, N]."""
        shape = len(self.first_node), self.num_nodes
        return self.first_node.new_zeros(shape, dtype=torch.int32)

    def tokens_after(self, target_tokens: Tensor) -> Tensor:
        """The token after each node, int [B, N]: the known one, else the one in target_tokens int32
        [B, N]."""
        if self.known_next is not None:
            target_tokens = torch.where(self.known_next < 0, target_tokens, self.known_next)
        return target_tokens.clamp(min=0)

    def next_ids(self, target_tokens: Tensor) -> Tensor:
        """The token after each of the T tokens, int [T]: after a node `tokens_after`, else the next
        token. target_tokens: int32 [B, N]"""
        next_tokens = self.tokens_after(target_tokens)
        if self.is_chain:
            return next_tokens.flatten()
        next_ids = self.input_ids.roll(-1)
        next_ids[self._node_index()] = next_tokens.long()
        return next_ids

    def _node_index(self) -> Tensor:
        """Index of every node among the T tokens, int64 [B, N]."""
        return self.first_node[:, None] + torch.arange(
            self.num_nodes, device=self.first_node.device
        )


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes that one target forward verifies: N nodes of each of B requests.

    inputs: the tokens of the forward
    rows:   the bitmask row behind each node, [B · N]; None: anything is allowed
    depths: int64 [N] or [B, N], number of drafts on the path to each node
    paths:  returns these drafts, int32 [B, N, D], -1 past the last one
    """

    inputs: ForwardInput
    rows: BitmaskRows | None
    depths: Tensor
    paths: Callable[[], Tensor]


def prefill_input(
    table: SlotTable, plan: PrefillPlan, max_query_len: int, scored: ScoredTokens | None = None
) -> ForwardInput:
    """The input of a prefill: each request has one node, its last token.

    max_query_len: no request has more tokens than this
    """
    block_table = table.block_table[plan.slots]
    position_ids, mapping, query_start_loc, seq_lens = place_prompts(
        plan.bounds, plan.ends, block_table, table.sizes.page_size, len(plan.token_ids)
    )
    image_rows = _image_rows(table, plan)
    context = ForwardContext(
        position_ids=position_ids,
        block_table=block_table,
        query_start_loc=query_start_loc,
        seq_lens=seq_lens,
        slot_mapping=mapping,
        max_query_len=max_query_len,
        page_size=table.sizes.page_size,
        attention=table.attention,
        adapter_ids=_adapters_of_prompts(table, plan),
        states=_states_of_prompts(table, plan),
        image_rows=image_rows,
        rotary_positions=plan.axes.view(3, -1) if table.sizes.num_axes else None,
    )
    return ForwardInput(
        slots=plan.slots,
        input_ids=_text_ids(table, plan, image_rows),
        context=context,
        first_node=plan.nodes,
        start=plan.ends - 1,
        num_nodes=1,
        known_next=plan.known_next[:, None],
        scored=scored,
        outputs=OutputRows.last_tokens(context, plan.nodes) if scored is None else None,
    )


def chain_input(
    table: SlotTable, tokens: Tensor, start: Tensor, slots: Slots, offset: int = 0
) -> ForwardInput:
    """The input of `tokens` int32 [B, N] at consecutive positions from `start` int64 [B] + `offset`
    on; every token is a node."""
    block_table = table.block_table[slots]
    placed = place_nodes(tokens, start, block_table, table.sizes.page_size, offset)
    return _placed_input(table, slots, block_table, tokens.shape, placed)


def tree_input(
    table: SlotTable,
    tokens: Tensor,
    start: Tensor,
    depths: Tensor,
    ancestor_mask: Tensor,
    slots: Slots,
    offset: int = 0,
) -> ForwardInput:
    """The input of the last Q of M nodes of draft trees. The keys of the M nodes are stored one
    after the other from position `start` + `offset` on.

    tokens: int32 [B, Q], -1 for none
    start:  int64 [B]
    depths: int64 [B, M] or [M], each node's position less `start` + `offset`
    ancestor_mask: bool [B, Q, M], as in TreeMask
    """
    block_table = table.block_table[slots]
    placed = place_nodes(tokens, start, block_table, table.sizes.page_size, offset, depths)
    positions = placed[4]
    assert positions is not None
    mask = TreeMask(ancestor_mask, positions)
    return _placed_input(table, slots, block_table, tokens.shape, placed, mask)


def _placed_input(
    table: SlotTable,
    slots: Slots,
    block_table: Tensor,
    shape: torch.Size,
    placed: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None],
    mask: AttentionMask = CAUSAL,
) -> ForwardInput:
    """The input of tokens of `shape` [B, Q]; placed: the result of `place_nodes`."""
    input_ids, position_ids, mapping, seq_lens, _ = placed
    num_requests, num_own = shape
    first_node, query_start_loc = _chain_starts(num_requests, num_own, input_ids.device)
    context = ForwardContext(
        position_ids=position_ids,
        slot_mapping=mapping,
        block_table=block_table,
        query_start_loc=query_start_loc,
        seq_lens=seq_lens,
        max_query_len=num_own,
        page_size=table.sizes.page_size,
        attention=table.attention,
        mask=mask,
        adapter_ids=_adapters_of_nodes(table, slots, num_own),
        states=_states_of_nodes(table, slots, position_ids.view(shape)[:, 0]),
        rotary_positions=_rotary_positions(table, slots, position_ids.view(shape)),
    )
    return ForwardInput(
        slots=slots,
        input_ids=input_ids,
        context=context,
        first_node=first_node,
        start=position_ids.view(num_requests, num_own)[:, 0],
        num_nodes=num_own,
        is_chain=True,
    )


def _image_rows(table: SlotTable, plan: PrefillPlan) -> Tensor | None:
    """See ForwardContext.image_rows. None where the target reads no images."""
    return None if table.sizes.image_token_id is None else (-1 - plan.token_ids).clamp(min=-1)


def _text_ids(table: SlotTable, plan: PrefillPlan, image_rows: Tensor | None) -> Tensor:
    """The tokens of a prefill, int64 [T], with the token that stands for an image where there is
    one; drafters read it."""
    if image_rows is None or table.sizes.image_token_id is None:
        return plan.token_ids
    return plan.token_ids.masked_fill(image_rows >= 0, table.sizes.image_token_id)


def _rotary_positions(table: SlotTable, slots: Slots, position_ids: Tensor) -> Tensor | None:
    """See ForwardContext.rotary_positions: those of nodes of output, at position_ids [B, N]."""
    if not table.sizes.num_axes:
        return None
    return (position_ids + table.position_shifts[slots][:, None]).flatten()


def _adapters_of_prompts(table: SlotTable, plan: PrefillPlan) -> Tensor | None:
    """The adapter of each token of a prefill, int32 [T]; None where there are no adapters. Padding
    has that of the last request."""
    if not table.sizes.has_adapters:
        return None
    index = torch.arange(len(plan.token_ids), device=plan.bounds.device)
    request = torch.bucketize(index, plan.bounds[1:-1], right=True)
    return table.adapter_ids[plan.slots][request]


def _adapters_of_nodes(table: SlotTable, slots: Slots, num_nodes: int) -> Tensor | None:
    """The adapter of each node of these slots, int32 [B · N]; None where there are no adapters."""
    if not table.sizes.has_adapters:
        return None
    return table.adapter_ids[slots].repeat_interleave(num_nodes)


def _states_of_prompts(table: SlotTable, plan: PrefillPlan) -> StateRows | None:
    """The slots whose states a prefill extends; None where there are no states. The last token of
    each request stays open: it is computed again if its row is late."""
    if not table.sizes.has_states:
        return None
    return StateRows(plan.slots, plan.ends - plan.bounds.diff(), num_open=1)


def _states_of_nodes(table: SlotTable, slots: Slots, starts: Tensor) -> StateRows | None:
    """The slots whose states nodes read; None where there are no states. Slots that do not decode
    are left alone, because the chunk of a prompt may extend their states in the same pass."""
    if not table.sizes.has_states:
        return None
    rows = torch.where(table.active[slots], table.ids[slots], -1)
    return StateRows(rows, starts, num_open=None)


@cache
def _chain_starts(num_requests: int, num_nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Index of the first token of each of B equally long chains, int64 [B]; and the same with the
    end of the last one, int32 [B + 1]."""
    starts = torch.arange(num_requests + 1, device=device) * num_nodes
    return starts[:-1], starts.int()
