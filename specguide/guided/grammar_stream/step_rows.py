"""Owns the rows of a grammar stream as the step reads them: the buffers of the callbacks, or copies
of these."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.guided.grammar_stream.buffers import GrammarBuffers
from specguide.guided.grammar_stream.walk_shapes import ChainWalks
from specguide.kernels import BitmaskRows, FilledRows, KeptRows, TakenRows, Wait, take_rows
from specguide.kernels.shared_memory import mapped


class RowCopies:
    """Copies of the callbacks' buffers, on the step's device.

    taken:     the copies
    proposals: no copy but the host's own memory, over the bus
    """

    def __init__(self, host: GrammarBuffers, device: torch.device) -> None:
        """host: the callbacks' buffers, in memory that the device can read"""
        bitmask, fill_ids = mapped(host.bitmask, device), mapped(host.fill_ids, device)
        self._filled = FilledRows(bitmask, fill_ids, None)
        self._held = mapped(host.held, device)
        self.taken = TakenRows(
            torch.zeros_like(host.bitmask, device=device),
            torch.zeros_like(host.fill_ids, device=device),
            torch.zeros_like(host.fill_ids, dtype=torch.uint8, device=device),
            torch.zeros_like(host.fill_ids, device=device),
            torch.zeros_like(host.fill_ids, dtype=torch.int32, device=device),
            torch.zeros_like(host.held, device=device),
        )
        self._kept: KeptRows | None = None
        if host.num_kept_rows:
            shape = host.num_kept_rows, host.bitmask.shape[2]
            self._kept = KeptRows(
                torch.zeros(shape, dtype=torch.int32, device=device),
                torch.zeros(host.num_kept_rows, dtype=torch.int64, device=device),
            )
        self.proposals = host.proposals and host.proposals.on_device(device)

    def take(self, nodes: slice, num_slots: int, wait: Wait | None, *, has_held: bool) -> None:
        """Copy the rows of some nodes of the first slots and, where `has_held`, which of these
        slots are held; see `take_rows`."""
        part = nodes, slice(0, num_slots)
        filled, taken = self._filled, self.taken
        copies = TakenRows(
            taken.bitmask[part],
            taken.fill_ids[part],
            taken.guided[part],
            taken.new_ids[part],
            taken.sources[part],
            taken.held[:num_slots],
        )
        held = self._held[:num_slots] if has_held else None
        rows = FilledRows(filled.bitmask[part], filled.fill_ids[part], held)
        take_rows(copies, rows, wait, self._kept)


class StepRows:
    """The rows of a `GrammarStream`; see GrammarBuffers.

    guided: integers [N, max_batch_size]; not 0: the request is guided there
    """

    def __init__(self, shape: ChainWalks, host: GrammarBuffers, copies: RowCopies | None) -> None:
        """copies: None for a step that reads the callbacks' buffers in place"""
        self._shape, self._copies = shape, copies
        self.bitmask, self.guided, self.held = host.bitmask, host.fill_ids, host.held
        self.proposals = host.proposals
        if copies is not None:
            taken = copies.taken
            self.bitmask, self.guided, self.held = taken.bitmask, taken.guided, taken.held
            self.proposals = copies.proposals
        self._all_rows = self.bitmask.flatten(0, 1), self.guided.flatten()
        num_nodes, num_slots = self.guided.shape
        row_ids = torch.arange(num_nodes * num_slots, device=self.guided.device)
        # by slot: the ids of its nodes' rows in the flattened rows
        self._row_ids = row_ids.view(num_nodes, num_slots).T.contiguous()

    def take(self, callback: int, num_slots: int, num_nodes: int | None, wait: Wait | None) -> None:
        """Copy the rows that a callback has filled, where the step has copies; see
        GrammarStream.launch."""
        if self._copies is None:
            return
        is_first = callback == 0
        shape = self._shape
        nodes = shape.target_rows(num_nodes) if is_first else shape.draft_rows(callback)
        self._copies.take(nodes, num_slots, wait, has_held=is_first)

    def chain_rows(self, slots: slice | Tensor, num_nodes: int) -> BitmaskRows:
        return self.rows(self._row_ids[slots, :num_nodes].flatten())

    def place_rows(self, slots: slice | Tensor, places: Tensor) -> BitmaskRows:
        num_slots = len(self._row_ids)
        return self.rows((places * num_slots + self._row_ids[slots, :1]).flatten())

    def node_rows(self, node: int, slots: Tensor) -> BitmaskRows:
        return BitmaskRows(self.bitmask[node], self.guided[node], slots)

    def rows(self, row_ids: Tensor) -> BitmaskRows:
        return BitmaskRows(*self._all_rows, row_ids)
