"""Owns LatentAttention: attention whose keys and values are computed from one small latent a token
(multi-head latent attention, DeepSeek-V2, arXiv 2405.04434)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels import LatentNorm, LatentQueries, rope_and_store_latents
from specguide.kernels.attention import AttentionForm
from specguide.layers.attention import AttentionState
from specguide.layers.cache_scales import CacheScales
from specguide.layers.destination import Destination, merged
from specguide.layers.lora import NO_LORA
from specguide.layers.norm import NormKind, RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.rope import RopeConfig
from specguide.layers.sharding import Section
from specguide.parallel import ONE_RANK

_NORM = NormKind(1e-6)
"""The norms of latents, whatever the other norms of the model add to the mean square."""


@dataclass(frozen=True)
class LatentShape:
    """What defines one layer's latent attention.

    rope:       rotary positions
    rank:       size of the latent that keys and values are computed from
    query_rank: size of the latent that queries are computed from; None: there is none
    plain_dim, rope_dim: features of a query and key head without positions, and with them
    value_dim:  features of a value head
    scale:      factor on the dot products
    """

    num_heads: int
    rope: RopeConfig
    rank: int
    query_rank: int | None
    plain_dim: int
    rope_dim: int
    value_dim: int
    scale: float


class Absorbed(NamedTuple):
    """The map from latents to keys and values, cut into one matrix for each head.

    keys:   [num_heads, plain_dim, rank], takes a query to the latent that it is compared with
    values: [num_heads, rank, value_dim], takes a weighted mean of latents to that of values
    """

    keys: Tensor
    values: Tensor


@dataclass(frozen=True, eq=False)
class Queries:
    """The maps from the hidden state to queries and to the keys' latents.

    first: hidden → queries, or their latent, then rank + rope_dim for the keys
    norm, second: the norm of the queries' latent, and latent → queries; None: `first` has queries
    """

    first: Projection
    norm: RmsNorm | None
    second: Projection | None

    @classmethod
    def create(cls, place: Placement, input_size: int, shape: LatentShape) -> Queries:
        """Maps with uninitialised weights. The heads are divided among ranks, latents are not."""
        size = shape.num_heads * (shape.plain_dim + shape.rope_dim)
        num_of_keys = shape.rank + shape.rope_dim
        keys = {"kv_a_proj_with_mqa": num_of_keys}
        if shape.query_rank is None:
            sections = Section(size, place.ranks), Section(num_of_keys, place.ranks.groups(1))
            outputs = {"q_proj": size, **keys}
            first = Projection.create(place, input_size, outputs, cut="outputs", sections=sections)
            return cls(first, None, None)
        alone = replace(place, ranks=ONE_RANK)
        outputs = {"q_a_proj": shape.query_rank, **keys}
        first = Projection.create(alone, input_size, outputs)
        second = Projection.create(place, shape.query_rank, {"q_b_proj": size}, cut="outputs")
        norm = RmsNorm.create(place, "q_a_layernorm", shape.query_rank, _NORM, second.input_format)
        return cls(first, norm, second)

    def __call__(self, x: ProjectionInput, num_of_keys: int) -> tuple[Tensor, Tensor]:
        """x [T, input] → queries [T, num_heads · head_dim], and what is stored [T, rank +
        rope_dim], before norm and rotation."""
        both = self.first.forward(x)
        queries, keys = both.split([both.shape[1] - num_of_keys, num_of_keys], 1)
        if self.norm is None or self.second is None:
            return queries, keys
        return self.second.forward(self.norm(queries)), keys

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.first, self.norm, self.second)


@dataclass(frozen=True, eq=False)
class LatentAttention:
    """Multi-head latent attention. The cache has one key a token, shared by all heads: a latent,
    and a part that has positions. The latent stands for the values, too.

    No key or value head is ever computed: a query is taken to the space of latents, and what the
    latents give is taken to values afterwards ("absorbed" weights).

    queries:      hidden → queries and latents
    latent_norm:  norm of the keys' latents
    expansion:    latent → num_heads · (plain_dim + value_dim), of each head keys, then values
    out:          num_heads · value_dim → hidden
    cache_scales: scales of a float8 cache, which this attention does not have
    """

    shape: LatentShape
    queries: Queries
    latent_norm: RmsNorm
    expansion: Projection
    out: Projection
    cache_scales: CacheScales

    @classmethod
    def create(
        cls, place: Placement, input_size: int, hidden_size: int, shape: LatentShape
    ) -> LatentAttention:
        """Attention input_size → hidden_size with uninitialised weights. Its heads are divided
        among ranks, each of which stores all latents. Raises InvalidParams if they cannot be
        divided."""
        expanded = {"kv_b_proj": shape.num_heads * (shape.plain_dim + shape.value_dim)}
        num_values = shape.num_heads * shape.value_dim
        num_heads = place.ranks.share(shape.num_heads, "attention heads")
        return cls(
            replace(shape, num_heads=num_heads),
            Queries.create(place, input_size, shape),
            RmsNorm.create(place, "kv_a_layernorm", shape.rank, _NORM),
            Projection.create(replace(place, lora=NO_LORA), shape.rank, expanded, cut="outputs"),
            Projection.create(place, num_values, {"o_proj": hidden_size}, cut="inputs"),
            CacheScales.create(place),
        )

    @property
    def rope(self) -> RopeConfig:
        """How positions are turned into angles."""
        return self.shape.rope

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which it prefers its input; None: a tensor."""
        return self.queries.first.input_format

    def prepare(self) -> None:
        """Make what is derived from the weights. Call it once they are read."""
        _ = self.absorbed

    @cached_property
    def absorbed(self) -> Absorbed:
        """The matrices of each head. Products with the rows of the identity give them in any
        quantization."""
        shape, weights = self.shape, self.expansion
        identity = torch.eye(shape.rank, dtype=self.latent_norm.weight.dtype)
        columns = weights.forward(identity.to(self.latent_norm.weight.device))
        heads = columns.view(shape.rank, shape.num_heads, -1)
        keys, values = heads.split([shape.plain_dim, shape.value_dim], 2)
        return Absorbed(keys.permute(1, 2, 0).contiguous(), values.transpose(0, 1).contiguous())

    def __call__(self, x: ProjectionInput, state: AttentionState) -> PartialSums:
        """Attend: x [T, input] → [T, hidden], or only the rows of the state's `outputs`. It first
        stores the keys of x."""
        outputs, rank = state.outputs, self.shape.rank
        query = state.wanted(self.store(x, state))
        context = state.context if outputs is None else outputs.context
        form = AttentionForm(self.shape.scale)
        latents = context.plan.run(query, state.key_cache, state.key_cache[..., :rank], form)
        assert isinstance(latents, Tensor)
        return self.out.forward_parts(_by_heads(latents, self.absorbed.values).flatten(1))

    def store(self, x: ProjectionInput, state: AttentionState) -> Tensor:
        """Store the keys of x [T, input]. Returns the queries [T, num_heads, rank + rope_dim]."""
        shape = self.shape
        queries, keys = self.queries(x, shape.rank + shape.rope_dim)
        heads = queries.unflatten(1, (shape.num_heads, -1))
        plain, turned = heads.split([shape.plain_dim, shape.rope_dim], 2)
        return rope_and_store_latents(
            keys,
            LatentQueries(_by_heads(plain, self.absorbed.keys), turned),
            LatentNorm(self.latent_norm.weight, self.latent_norm.eps),
            state.rotary,
            state.key_cache,
            state.context.slot_mapping,
            shape.rope.layout(shape.rope_dim),
        )

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.queries, self.latent_norm, self.expansion, self.out, self.cache_scales)


def _by_heads(rows: Tensor, matrices: Tensor) -> Tensor:
    """The product of each head with its matrix: [T, num_heads, A] and [num_heads, A, B] →
    [T, num_heads, B]."""
    return torch.bmm(rows.transpose(0, 1), matrices).transpose(0, 1)
