"""Owns the memory of layers whose state has one size for any context: a state for each slot, and
saved ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.kernels import (
    DeltaPass,
    DeltaState,
    OpenTokens,
    StatePart,
    StateShape,
    num_rounds,
    on_device,
)
from specguide.kernels.attention import ForwardContext, StateRows, TreeMask


@dataclass(frozen=True, eq=False)
class SlotStates:
    """The states of all layers in R rows: one for each slot, and those in which states are saved.

    memory:  of all layers, each tensor [num_layers, …]
    lengths: int64 [R + 1], tokens before the open ones of the last pass; the last entry is for
             sequences without a slot
    turns:   int64 [R + 1], number of the last pass among those with places of their own, see
             num_rounds
    ages:    int64 [R + 1], passes since the matrix was stored
    paths:   int32 [R + 1, N], the open tokens of the last pass along the path that was accepted
    kept:    of the open tokens of the passes before, since the matrix was stored, those that were
             accepted
    """

    memory: DeltaState
    lengths: Tensor
    turns: Tensor
    ages: Tensor
    paths: Tensor
    kept: OpenTokens

    @classmethod
    def allocate(
        cls,
        shape: StateShape,
        num_rows: int,
        num_open: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> SlotStates:
        """Zeroed memory. num_open: most tokens of a pass and slot that may be rejected"""
        memory = DeltaState(
            *(
                torch.zeros((shape.num_layers, *it.shape), dtype=it.dtype, device=device)
                for it in shape.tensors(num_rows, num_open, dtype)
            )
        )
        lengths, turns, ages = torch.zeros(3, num_rows + 1, dtype=torch.int64, device=device)
        chain = torch.arange(num_open, dtype=torch.int32, device=device)
        paths = chain.repeat(num_rows + 1, 1)
        num_kept = (num_rounds(num_open) - 1) * num_open
        places = torch.zeros(num_rows + 1, num_kept, dtype=torch.int32, device=device)
        kept = OpenTokens(places[:, 0].clone(), places)
        return cls(memory, lengths, turns, ages, paths, kept)

    @cached_property
    def layers(self) -> tuple[DeltaState, ...]:
        """The states of each layer."""
        return tuple(DeltaState(*its) for its in zip(*self.memory, strict=True))

    def run(
        self, parts: Sequence[tuple[slice, ForwardContext]]
    ) -> Iterator[tuple[tuple[StatePart, ...], DeltaState]]:
        """For each layer in turn: how the tokens of a pass meet the states, and the states. All
        layers must run once over the tokens."""
        begun = tuple(StatePart(tokens, self._begin(context)) for tokens, context in parts)
        return ((begun, layer) for layer in self.layers)

    @property
    def num_bytes(self) -> int:
        """Memory of all layers, bytes."""
        return sum(tensor.nbytes for tensor in self.memory)

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy states from row to row: source and target of each; no row is both. At most one token
        of each source may be open, as behind a chunk of a prompt."""
        memory = self.memory
        for source, target in copies:  # one by one: many at once would be held twice
            memory.matrices[:, target] = memory.matrices[:, source]
            memory.inputs[:, :, target] = memory.inputs[:, :, source]
            memory.open_inputs[:, :, target, 0] = memory.open_inputs[:, :, source, 0]
        sources, targets = on_device(copies, self.lengths.device).T
        places = self.turns[sources] * self._num_open
        for tensor in (memory.open_keys, memory.open_changes, memory.open_decays):
            tensor[:, targets, places] = tensor[:, sources, places]
        for tensor in (self.lengths, self.turns, self.ages, self.kept.num):
            tensor[targets] = tensor[sources]
        self.paths[targets] = self._chain

    def accept(self, slots: Tensor, nodes: Tensor) -> None:
        """Tell which nodes of draft trees were accepted. slots: int64 [B]; nodes: int64 [B, D], the
        drafts along each path, ascending; -1 past the last one"""
        nodes = nodes[:, : self._num_open - 1]
        self.paths[slots, 1 : 1 + nodes.shape[1]] = nodes.clamp(min=0).int()

    def free(self) -> None:
        """See KVCache."""
        for tensor in (tensor for tensor in self.memory if tensor.is_cuda):
            tensor.untyped_storage().resize_(0)

    def _begin(self, context: ForwardContext) -> DeltaPass:
        """How some tokens meet the states, which from then on are those behind them."""
        rows, bounds = context.states, context.query_start_loc
        assert rows is not None, "a model with states needs the slots of its tokens"
        lens = bounds.diff()
        slots = torch.where(lens > 0, rows.slots, -1)
        index = torch.where(slots < 0, len(self.lengths) - 1, slots)
        begins = rows.starts == 0
        num = (rows.starts - self.lengths[index]).clamp(0, self._num_open)
        accepted = OpenTokens(torch.where(begins, -1, num).int(), self.paths[index])
        settled = self._with_kept(index, accepted)
        turns = self.turns[index]
        is_prompt = rows.num_open is not None
        num_open = context.max_query_len if rows.num_open is None else rows.num_open
        is_last = self.ages[index] >= self._num_rounds - 1
        stores = begins | (slots < 0) | is_last | is_prompt
        behind = (turns + 1) % self._num_rounds
        self.lengths[index] = rows.starts + (lens - num_open).clamp(min=0)
        self.turns[index] = behind
        self.ages[index] = torch.where(stores, 1, self.ages[index] + 1)
        self.paths[index] = self._chain
        self.kept.num[index] = torch.where(stores, 0, settled.num)
        self.kept.places[index] = settled.places
        return DeltaPass(
            slots,
            bounds,
            turns % 2,
            accepted,
            settled,
            behind * self._num_open,
            stores,
            num_open,
            context.max_query_len,
            *_tree(context, rows, self._num_before),
        )

    def _with_kept(self, index: Tensor, accepted: OpenTokens) -> OpenTokens:
        """All open tokens of some rows that were accepted."""
        num_kept = self.kept.num[index]
        behind = num_kept[:, None] + self._chain
        places = self.turns[index][:, None] * self._num_open + accepted.places
        places = self.kept.places[index].scatter(1, behind.long(), places.int())
        num = torch.where(accepted.num < 0, -1, num_kept + accepted.num)
        return OpenTokens(num, places)

    @property
    def _num_open(self) -> int:
        return self.paths.shape[1]

    @property
    def _num_rounds(self) -> int:
        return self.memory.open_keys.shape[2] // self._num_open

    @property
    def _num_before(self) -> int:
        return self.memory.inputs.shape[3]

    @cached_property
    def _chain(self) -> Tensor:
        return torch.arange(self._num_open, dtype=torch.int32, device=self.paths.device)


def _tree(
    context: ForwardContext, rows: StateRows, num_before: int
) -> tuple[Tensor | None, Tensor | None]:
    """`ancestors` and `before` of a DeltaPass."""
    mask = context.mask
    if not isinstance(mask, TreeMask):
        return None, None
    ancestors, positions = mask.ancestor_mask, mask.position_ids
    steps = torch.arange(1, num_before + 1, device=positions.device)
    wanted = positions[:, :, None] - steps  # [B, N, W - 1]
    found = ancestors[:, :, None] & (positions[:, None, None, :] == wanted[..., None])
    place = found.to(torch.uint8).argmax(-1)
    before = torch.where(found.any(-1), place, wanted - rows.starts[:, None, None])
    return ancestors, before.int()
