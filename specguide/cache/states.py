"""Owns the memory of layers whose state has one size for any context: a state for each slot, and
saved ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specguide.kernels import DeltaPass, DeltaState, StatePart, StateShape, on_device
from specguide.kernels.attention import ForwardContext, StateRows, TreeMask


@dataclass(frozen=True, eq=False)
class SlotStates:
    """The states of all layers in R rows: one for each slot, and those in which states are saved.

    memory:  of all layers, each tensor [num_layers, …]
    lengths: int64 [R + 1], tokens that the states have taken in; the last entry is for sequences
             without a slot
    turns:   int64 [R + 1], which copy is read next, see DeltaState
    paths:   int32 [R + 1, N], places of the open tokens along the path that was accepted
    """

    memory: DeltaState
    lengths: Tensor
    turns: Tensor
    paths: Tensor

    @classmethod
    def allocate(
        cls,
        shape: StateShape,
        num_rows: int,
        num_open: int,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> SlotStates:
        """Zeroed memory. num_open: most tokens of a slot that may be rejected"""
        memory = DeltaState(
            *(
                torch.zeros((shape.num_layers, *it.shape), dtype=it.dtype, device=device)
                for it in shape.tensors(num_rows, num_open, dtype)
            )
        )
        lengths = torch.zeros(num_rows + 1, dtype=torch.int64, device=device)
        chain = torch.arange(num_open, dtype=torch.int32, device=device)
        return cls(memory, lengths, torch.zeros_like(lengths), chain.repeat(num_rows + 1, 1))

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
        source, target = on_device(copies, self.lengths.device).T
        self.memory.matrices[:, target] = self.memory.matrices[:, source]
        for tensor in self.memory[1:]:
            both = tensor[:, :, :, :1] if tensor is not self.memory.inputs else tensor
            both[:, :, target] = both[:, :, source]
        for tensor in (self.lengths, self.turns):
            tensor[target] = tensor[source]
        self.paths[target] = self._chain

    def accept(self, slots: Tensor, nodes: Tensor) -> None:
        """Tell which nodes of draft trees were accepted. slots: int64 [B]; nodes: int64 [B, D], the
        drafts along each path, ascending; -1 past the last one"""
        nodes = nodes[:, : self.paths.shape[1] - 1]
        self.paths[slots, 1 : 1 + nodes.shape[1]] = nodes.clamp(min=0).int()

    def free(self) -> None:
        """See KVCache."""
        for tensor in (tensor for tensor in self.memory if tensor.is_cuda):
            tensor.untyped_storage().resize_(0)

    def _begin(self, context: ForwardContext) -> DeltaPass:
        rows, bounds = context.states, context.query_start_loc
        assert rows is not None, "a model with states needs the slots of its tokens"
        lens = bounds.diff()
        slots = torch.where(lens > 0, rows.slots, -1)
        index = torch.where(slots < 0, len(self.lengths) - 1, slots)
        num_open = context.max_query_len if rows.num_open is None else rows.num_open
        num_settled = (rows.starts - self.lengths[index]).clamp(0, self.paths.shape[1])
        num_settled = torch.where(rows.starts == 0, -1, num_settled).int()
        turns = self.turns[index]
        self.lengths[index] = rows.starts + (lens - num_open).clamp(min=0)
        self.turns[index] = 1 - turns
        settled = self.paths[index]
        self.paths[index] = self._chain
        return DeltaPass(
            slots,
            bounds,
            turns,
            num_settled,
            settled,
            num_open,
            context.max_query_len,
            *_tree(context, rows, self._num_before),
        )

    @property
    def _num_before(self) -> int:
        return self.memory.inputs.shape[3]

    @cached_property
    def _chain(self) -> Tensor:
        return torch.arange(self.paths.shape[1], dtype=torch.int32, device=self.paths.device)


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
