"""Owns RopeTables: the rotary tables that a decoder's layers read, and how long they may be."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from specguide.errors import CheckpointError, InvalidParams
from specguide.layers.rope import (
    RopeConfig,
    TableSize,
    axis_of_dims,
    query_scales,
    rope_table,
)
from specguide.models.config import ModelConfig

_DRAFT_POSITIONS = 128
"""Positions beyond the end of the context: drafts are proposed and verified there too, though none
of them is ever accepted."""

_LARGEST_TABLE = 4 * 2**30
"""Maximum bytes of a rotary table: 8 million positions of a head of 128 in bfloat16."""

RopeKind = tuple[RopeConfig, int]
"""A rope, and the size of the heads that it rotates."""

Rotary = tuple[Tensor, Tensor | None]
"""Cosines and sines at the positions of a pass, and factors on its queries."""


class RopeTables:
    """A rotary table for each kind of rope in a decoder of `max_positions` positions."""

    def __init__(
        self,
        kinds: Iterable[RopeKind],
        max_positions: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._max_positions, self._device, self._dtype = max_positions, device, dtype
        self._tables = {kind: self._table(*kind) for kind in dict.fromkeys(kinds)}
        self._axes = {kind: axis_of_dims(*kind).to(device) for kind in self._tables}

    def at(self, position_ids: Tensor, axes: Tensor | None = None) -> dict[RopeKind, Rotary]:
        """What layers of each kind read at these positions, int64 [T].

        axes: int64 [T], or [3, T] in time, height and width: the positions by which tokens are
              rotated; None: position_ids
        """
        places = position_ids if axes is None else axes
        return {
            kind: (
                _angles(table, self._axes[kind], places),
                query_scales(kind[0], position_ids, self._dtype),
            )
            for kind, table in self._tables.items()
        }

    def of_head(self, layer: ModelConfig) -> Tensor:
        """The table for a draft head's layer, as long as this model's: heads are published with a
        smaller max_position_embeddings than they serve. Raises CheckpointError if a rope of its
        kind cannot be that long."""
        kind = layer.rope, layer.rotary_dim
        if kind in self._tables:
            return self._tables[kind]
        longest = layer.max_position_embeddings
        if layer.rope.rope_type == "dynamic" and self._max_positions > longest:
            raise CheckpointError(
                f"a draft head with rope type 'dynamic' is supported up to its {longest} "
                f"positions, and the target has {self._max_positions}: set max_model_len to "
                f"{longest} or less"
            )
        return self._table(*kind)

    def _table(self, rope: RopeConfig, head_dim: int) -> Tensor:
        size = TableSize(head_dim, self._max_positions + _DRAFT_POSITIONS, self._max_positions)
        return rope_table(rope, size, device=self._device, dtype=self._dtype)


def _angles(table: Tensor, axes: Tensor, places: Tensor) -> Tensor:
    """The rows [T, 2, 1, dim] of a rotary table at `places`, int64 [T] or [3, T]. axes: the one of
    the three that counts in each dimension, int64 [dim]"""
    if places.dim() == 1:
        return table.index_select(0, places)
    dims = torch.arange(len(axes), device=axes.device)
    return table[places[axes], :, :, dims[:, None]].movedim(0, -1).contiguous()


def check_positions(config: ModelConfig, max_positions: int, dtype: torch.dtype) -> None:
    """Raise InvalidParams if the model has fewer positions, or its rotary table would be too
    large."""
    if max_positions > config.max_position_embeddings:
        raise InvalidParams(
            f"max_model_len must be at most {config.max_position_embeddings}, the positions that "
            f"the model has; found {max_positions}",
            param="max_model_len",
        )
    widest = max(config.rotary_dim_of(layer) for layer in range(config.num_layers))
    table_bytes = 2 * max_positions * widest * dtype.itemsize
    if table_bytes > _LARGEST_TABLE:
        raise InvalidParams(
            f"the rope table for {max_positions} positions would need {table_bytes} bytes; set "
            f"max_model_len to {max_positions * _LARGEST_TABLE // table_bytes} or less",
            param="max_model_len",
        )
