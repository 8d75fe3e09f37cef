"""Owns LinearAttention by the gated delta rule (Gated DeltaNet, Yang et al. 2024, arXiv
2412.06464): attention whose memory is one matrix a head, however long the context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels import (
    DeltaInputs,
    DeltaState,
    DeltaWeights,
    StatePart,
    StateShape,
    delta_heads,
    gated_delta_rule,
    gated_norm,
)
from specguide.kernels.attention import OutputRows
from specguide.layers.destination import Destination, merged
from specguide.layers.norm import NormKind
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.sharding import Section, shards, shards_of_sections


@dataclass(frozen=True)
class DeltaShape:
    """What defines one layer's linear attention.

    num_key_heads:   heads of queries and keys
    num_value_heads: heads of values; each key head serves as many of them
    key_dim, value_dim: features of a head
    conv_len:        tokens that the convolution reads
    norm:            kind of the norm of each head's output
    is_by_key_head:  the checkpoint has one map in_proj_qkvz, and one in_proj_ba, in which all that
                     belongs to a key head stands together; else a map for each part
    """

    num_key_heads: int
    num_value_heads: int
    key_dim: int
    value_dim: int
    conv_len: int
    norm: NormKind
    is_by_key_head: bool = False

    @property
    def group(self) -> int:
        """Value heads of each key head."""
        return self.num_value_heads // self.num_key_heads

    @property
    def query_size(self) -> int:
        """Features of all queries."""
        return self.num_key_heads * self.key_dim

    @property
    def value_size(self) -> int:
        """Features of all values."""
        return self.num_value_heads * self.value_dim

    def state(self, num_layers: int) -> StateShape:
        """The shape of what such layers remember."""
        heads = self.num_key_heads, self.num_value_heads
        return StateShape(num_layers, *heads, self.key_dim, self.value_dim, self.conv_len)


class LinearState(NamedTuple):
    """What one layer's linear attention reads and writes in a pass, besides its input.

    parts:   the tokens of the pass, in parts, and their slots
    memory:  the layer's states of all slots
    outputs: the tokens whose output is computed; None: all
    """

    parts: tuple[StatePart, ...]
    memory: DeltaState
    outputs: OutputRows | None = None

    def wanted(self, hidden: Tensor) -> Tensor:
        """The rows of `hidden` [T, …] that belong to `outputs`."""
        return hidden if self.outputs is None else hidden[self.outputs.index]


@dataclass(frozen=True, eq=False)
class LinearAttention:
    """Linear attention by the gated delta rule, behind a short convolution, with a gated norm.

    mixed: input → queries, keys, values and output gates
    gates: input → logits of strengths, and decay steps, of each value head
    convolution: [C, 1, conv_len], channels of queries, keys, then values
    rates:       float32 [num_value_heads], decay per step
    step_bias:   float32 [num_value_heads]
    norm_weight: [value_dim]
    out:         num_value_heads · value_dim → hidden
    """

    shape: DeltaShape
    mixed: Projection
    gates: Projection
    convolution: Tensor
    rates: Tensor
    step_bias: Tensor
    norm_weight: Tensor
    out: Projection
    place: Placement

    rope = None
    """It has no positions."""
    cache_scales = None
    """It stores no keys."""

    @classmethod
    def create(cls, place: Placement, input_size: int, shape: DeltaShape) -> LinearAttention:
        """Linear attention with uninitialised weights. The heads are divided among ranks. Raises
        InvalidParams if they cannot be divided."""
        whole, ranks = shape, place.ranks
        shape = replace(
            shape,
            num_key_heads=ranks.share(shape.num_key_heads, "key heads of linear attention"),
            num_value_heads=ranks.share(shape.num_value_heads, "value heads of linear attention"),
        )
        query, value, num_heads = whole.query_size, whole.value_size, whole.num_value_heads
        sizes = {"in_proj_qkv": 2 * query + value, "in_proj_z": value}
        gates = {"in_proj_b": num_heads, "in_proj_a": num_heads}
        sections = [Section(size, ranks) for size in (query, query, value, value)]
        if shape.is_by_key_head:
            sizes = {"in_proj_qkvz": 2 * query + 2 * value}
            gates = {"in_proj_ba": 2 * num_heads}
            sections = []
        num_channels = shape.state(1).num_channels
        return cls(
            shape,
            Projection.create(place, input_size, sizes, cut="outputs", sections=sections),
            Projection.create(place, input_size, gates, cut="outputs"),
            place.empty(num_channels, 1, shape.conv_len),
            place.empty(shape.num_value_heads, dtype=torch.float32),
            place.empty(shape.num_value_heads, dtype=torch.float32),
            place.empty(shape.value_dim),
            Projection.create(place, value, {"out_proj": input_size}, cut="inputs"),
            place,
        )

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which it prefers its input; None: a tensor."""
        wanted = self.mixed.input_format
        return wanted if wanted == self.gates.input_format else None

    def prepare(self) -> None:
        """Make what is derived from the weights: nothing."""

    def __call__(self, x: ProjectionInput, state: LinearState) -> PartialSums:
        """Attend: x [T, input] → [T, input], or only the rows of the state's `outputs`. The states
        of the tokens' slots take in all of x."""
        inputs, output_gate = self._inputs(x)
        weights = DeltaWeights(self.convolution[:, 0], self.rates, self.step_bias)
        results = []
        for tokens, own in state.parts:
            part = DeltaInputs(*(tensor[tokens] for tensor in inputs))
            heads = delta_heads(part, weights, state.memory, own)
            results.append(gated_delta_rule(heads, state.memory, own))
        result = results[0] if len(results) == 1 else torch.cat(results)
        wanted = state.wanted(result), state.wanted(output_gate)
        return self.out.forward_parts(gated_norm(*wanted, self.norm_weight, self.shape.norm.eps))

    def _inputs(self, x: ProjectionInput) -> tuple[DeltaInputs, Tensor]:
        """What the delta rule reads, and the gate of its output [T, G, H / G, value_dim]: views of
        the products."""
        shape = self.shape
        mixed, gates = self.mixed.forward(x), self.gates.forward(x)
        num_groups = shape.num_key_heads
        if shape.is_by_key_head:
            inner = [shape.key_dim, shape.key_dim, *2 * [shape.group * shape.value_dim]]
            parts = mixed.unflatten(1, (num_groups, -1)).split(inner, 2)
            strength, step = gates.unflatten(1, (num_groups, 2, -1)).unbind(2)
        else:
            sizes = [shape.query_size, shape.query_size, shape.value_size, shape.value_size]
            parts = tuple(it.unflatten(1, (num_groups, -1)) for it in mixed.split(sizes, 1))
            strength, step = gates.unflatten(1, (2, num_groups, -1)).unbind(1)
        query, key, value, output_gate = parts
        value, output_gate = (it.unflatten(2, (shape.group, -1)) for it in (value, output_gate))
        return DeltaInputs(query, key, value, strength, step), output_gate

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return {**merged(self.mixed, self.gates, self.out), **self._own_destinations()}

    def _own_destinations(self) -> dict[str, Destination]:
        ranks, prefix = self.place.ranks, self.place.prefix
        shape, sizes = self.shape, (self.shape.query_size,) * 2
        sections = [Section(size * ranks.size, ranks) for size in (*sizes, shape.value_size)]
        convolution = {f"{prefix}conv1d.weight": Destination.of(self.convolution)}
        heads = {
            f"{prefix}A_log": replace(Destination.of(self.rates), convert=_rates),
            f"{prefix}dt_bias": Destination.of(self.step_bias),
        }
        return {
            **shards_of_sections(_of_all(convolution, ranks.size), convolution, sections),
            **shards(_of_all(heads, ranks.size), heads, ranks),
            f"{prefix}norm.weight": Destination.of(self.norm_weight),
        }


def _rates(stored: Tensor) -> Tensor:
    return -stored.float().exp()


def _of_all(parts: dict[str, Destination], num_ranks: int) -> dict[str, Destination]:
    """The destinations of whole tensors, of which each rank has an equal part along the first
    dimension."""
    return {
        name: replace(it, shape=(it.shape[0] * num_ranks, *it.shape[1:]))
        for name, it in parts.items()
    }
