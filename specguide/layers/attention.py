"""Owns Attention: causal self-attention over a paged KV cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels import ProductScales, rope_and_store, sigmoid_mul
from specguide.kernels.attention import AttentionForm, OutputRows, PassContext
from specguide.layers.cache_scales import CacheScales
from specguide.layers.destination import Destination, merged
from specguide.layers.norm import NormKind, RmsNorm, WholeNorms
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.rope import RopeConfig
from specguide.layers.sharding import Section, shards
from specguide.parallel import Ranks


@dataclass(frozen=True)
class AttentionShape:
    """What defines one layer's attention.

    rope:           rotary positions of its queries and keys
    qkv_bias, out_bias: whether the projections have biases
    qk_norm:        the norm of each query and key head; None: no norm
    is_qk_norm_whole: the norm is over all query heads together, and over all key heads together
    is_fused:       the checkpoint has a single map qkv_proj for queries, keys and values
    has_value_norm: each value head is normed, too, without weights
    are_keys_values: the product of k_proj stands for the values, too; there is no v_proj
    has_gate:       q_proj has a gate behind each query head, whose sigmoid the output is multiplied
                    by (Qiu et al. 2025, arXiv 2505.06708)
    sliding_window: a token sees itself and the sliding_window - 1 tokens before it; None: all
                    tokens before it
    scale:          factor on the dot products; None: head_dim^-1/2
    has_sinks:      each head has a learned score that takes part in the softmax (attention sink)
    softcap:        limit of the scores, see AttentionForm; None: no limit
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    rope: RopeConfig
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: NormKind | None = None
    is_qk_norm_whole: bool = False
    is_fused: bool = False
    has_value_norm: bool = False
    are_keys_values: bool = False
    has_gate: bool = False
    sliding_window: int | None = None
    scale: float | None = None
    has_sinks: bool = False
    softcap: float | None = None


class AttentionState(NamedTuple):
    """What one layer's attention reads and writes in a pass, besides its input.

    context: positions and cache slots of the tokens
    rotary:  [T, 2, 1, head_dim], cosine and signed sine at their positions
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim]
    query_scales: factors on the queries, [T, 1, 1]; None: no factors
    outputs: the tokens whose attention output is computed; None: all
    layer_input: what the layer gets beside the stream, [T, D]; None: nothing
    """

    context: PassContext
    rotary: Tensor
    key_cache: Tensor
    value_cache: Tensor
    query_scales: Tensor | None = None
    outputs: OutputRows | None = None
    layer_input: Tensor | None = None

    def wanted(self, hidden: Tensor) -> Tensor:
        """The rows of `hidden` [T, …] that belong to `outputs`."""
        return hidden if self.outputs is None else hidden[self.outputs.index]


@dataclass(frozen=True, eq=False)
class Sinks:
    """The learned sink score of each head of this rank, [num_heads], called `name` in the
    checkpoint."""

    scores: Tensor
    name: str
    ranks: Ranks

    @classmethod
    def create(cls, place: Placement, num_heads: int) -> Sinks:
        """Sinks with uninitialised weights."""
        return cls(place.empty(num_heads), f"{place.prefix}sinks", place.ranks)

    def destinations(self) -> dict[str, Destination]:
        """Where the tensor of a checkpoint goes, by its full name."""
        part = Destination.of(self.scores)
        num_heads = len(self.scores) * self.ranks.size
        whole = replace(part, shape=(num_heads,))
        return shards({self.name: whole}, {self.name: part}, self.ranks)


@dataclass(frozen=True, eq=False)
class Attention:
    """Grouped-query attention with rotary positions.

    qkv:     input → (num_heads + 2 · num_kv_heads) · head_dim; queries, then keys, then values.
             With a gate a query head and its gate take turns
    out:     num_heads · head_dim → hidden
    qk_norm: norm of the query and key heads, and of value heads if these have one; None: no norm
    cache_scales: scales of its keys and values in a float8 cache
    sinks:   see AttentionForm
    """

    shape: AttentionShape
    qkv: Projection
    out: Projection
    qk_norm: RmsNorm | WholeNorms | None
    cache_scales: CacheScales
    sinks: Sinks | None = None

    @classmethod
    def create(
        cls, place: Placement, input_size: int, hidden_size: int, shape: AttentionShape
    ) -> Attention:
        """Attention input_size → hidden_size with uninitialised weights. The heads are divided
        among ranks; with more ranks than key-value heads, several ranks hold the same one.

        Raises InvalidParams if the heads cannot be divided.
        """
        out_size = shape.num_heads * shape.head_dim
        query_size = (1 + shape.has_gate) * out_size
        kv_size = shape.num_kv_heads * shape.head_dim
        qkv = {"q_proj": query_size, "k_proj": kv_size, "v_proj": kv_size}
        kv_ranks = place.ranks.groups(shape.num_kv_heads)
        sections = Section(query_size, place.ranks), *[Section(kv_size, kv_ranks)] * 2
        if shape.is_fused:
            qkv = {"qkv_proj": query_size + 2 * kv_size}
        elif shape.are_keys_values:
            del qkv["v_proj"]
            sections = sections[:2]
        out = {"o_proj": hidden_size}
        shape = _of_rank(shape, place.ranks)
        return cls(
            shape,
            Projection.create(
                place, input_size, qkv, bias=shape.qkv_bias, cut="outputs", sections=sections
            ),
            Projection.create(place, out_size, out, bias=shape.out_bias, cut="inputs"),
            _qk_norm(place, shape, kv_ranks),
            CacheScales.create(place),
            Sinks.create(place, shape.num_heads) if shape.has_sinks else None,
        )

    @property
    def rope(self) -> RopeConfig:
        """How positions are turned into angles."""
        return self.shape.rope

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which it prefers its input; None: a tensor."""
        return self.qkv.input_format

    def prepare(self) -> None:
        """Make what is derived from the weights: nothing."""

    def __call__(self, x: ProjectionInput, state: AttentionState) -> PartialSums:
        """Attend: x [T, input] → [T, hidden], or only the rows of the state's `outputs`. It first
        stores the keys and values of x."""
        outputs = state.outputs
        query, gate = self._store(x, state)
        context = state.context if outputs is None else outputs.context
        attended = context.plan.run(
            state.wanted(query), state.key_cache, state.value_cache, self._form(state.key_cache)
        )
        if gate is not None:
            assert isinstance(attended, Tensor)
            return self.out.forward_parts(sigmoid_mul(attended, state.wanted(gate)))
        if isinstance(attended, Tensor):
            attended = attended.flatten(1)
        return self.out.forward_parts(attended)

    def _form(self, key_cache: Tensor) -> AttentionForm:
        shape = self.shape
        input_format = None if shape.has_gate else self.out.input_format
        return AttentionForm(
            scale=shape.head_dim**-0.5 if shape.scale is None else shape.scale,
            sliding_window=shape.sliding_window,
            sinks=None if self.sinks is None else self.sinks.scores,
            scales=self.cache_scales.of(key_cache),
            rounding=None if input_format is None else input_format.rounding,
            softcap=shape.softcap,
        )

    def store(self, x: ProjectionInput, state: AttentionState) -> Tensor:
        """Store the keys and values of x [T, input]. Returns the queries [T, num_heads,
        head_dim]."""
        return self._store(x, state)[0]

    def _store(self, x: ProjectionInput, state: AttentionState) -> tuple[Tensor, Tensor | None]:
        """As `store`, and the gates of the output, of the queries' shape, where there are any."""
        shape = self.shape
        context, rotary, key_cache, value_cache, query_scales = state[:5]
        query_key, value, product_scales, gate = self._heads(x)
        query = rope_and_store(
            query_key,
            value,
            rotary,
            key_cache,
            value_cache,
            context.slot_mapping,
            self.cache_scales.of(key_cache),
            shape.rope.layout(shape.head_dim),
            product_scales,
        )
        return (query if query_scales is None else query * query_scales), gate

    def _heads(
        self, x: ProjectionInput
    ) -> tuple[Tensor, Tensor, ProductScales | None, Tensor | None]:
        """Query and key heads, and value heads, in parts [P, T, heads, head_dim]; the scales by
        which both still have to be multiplied; and gates [T, num_heads, head_dim]."""
        shape, gate = self.shape, None
        if self.qk_norm is None and not shape.has_gate:
            product = self.qkv.forward_parts(x)
        else:
            product = PartialSums.of(self.qkv.forward(x))
        heads = product.unscaled.unflatten(-1, (-1, shape.head_dim))
        if shape.has_gate:
            both, *others = heads.split([2 * shape.num_heads, *2 * [shape.num_kv_heads]], 2)
            query, gate = both[0].unflatten(1, (-1, 2)).unbind(2)
            heads = torch.cat([query[None], *others], 2)
        if shape.are_keys_values:
            heads = torch.cat([heads, heads[:, :, shape.num_heads :]], 2)
        if self.qk_norm is not None and shape.has_value_norm:
            heads = self.qk_norm(heads[0])[None]
        sizes = shape.num_heads + shape.num_kv_heads, shape.num_kv_heads
        query_key, value = heads.split(sizes, 2)
        if self.qk_norm is not None and not shape.has_value_norm:
            query_key = self.qk_norm(query_key[0])[None]
        return query_key, value, product.scales, gate

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.qkv, self.out, self.qk_norm, self.sinks, self.cache_scales)


def kv_heads_of_rank(num_kv_heads: int, ranks: Ranks) -> int:
    """Number of a model's key-value heads that each rank has. Raises InvalidParams if they cannot
    be divided."""
    return ranks.groups(num_kv_heads).share(num_kv_heads, "key-value heads")


def _of_rank(shape: AttentionShape, ranks: Ranks) -> AttentionShape:
    """A rank's share of an attention: equally many query heads on each rank, and the key-value
    heads that these read."""
    return replace(
        shape,
        num_heads=ranks.share(shape.num_heads, "attention heads"),
        num_kv_heads=kv_heads_of_rank(shape.num_kv_heads, ranks),
    )


def _qk_norm(
    place: Placement, shape: AttentionShape, kv_ranks: Ranks
) -> RmsNorm | WholeNorms | None:
    if shape.qk_norm is None:
        return None
    num_heads = {"q_norm": shape.num_heads, "k_norm": shape.num_kv_heads}
    if shape.is_qk_norm_whole:
        return WholeNorms.create(place, num_heads, shape.head_dim, shape.qk_norm, kv_ranks)
    num_plain = shape.num_kv_heads if shape.has_value_norm else 0
    return RmsNorm.of_heads(place, num_heads, shape.head_dim, shape.qk_norm, num_plain)
