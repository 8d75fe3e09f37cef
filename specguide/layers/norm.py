"""Owns RmsNorm, the root-mean-square norm, and NormKind, which describes its variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specguide.kernels import add_rms_norm, norm_into, rms_norm
from specguide.layers.destination import Destination
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.sharding import shards
from specguide.parallel import ONE_RANK, Ranks


@dataclass(frozen=True)
class NormKind:
    """What the norms of a model have in common.

    eps:           added to the mean square
    weight_offset: added to the weights of the checkpoint; 1 if it stores weight - 1, as Gemma's
                   does
    weight_factor: multiplies the weights
    """

    eps: float
    weight_offset: float = 0.0
    weight_factor: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether the weights are those of the checkpoint, unchanged."""
        return self.weight_offset == 0.0 and self.weight_factor == 1.0


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows of a norm's weight, to which one tensor [D] of the checkpoint is broadcast."""

    weight: Tensor
    kind: NormKind

    def destination(self) -> Destination:
        shape = (self.weight.shape[-1],)
        offset, factor = self.kind.weight_offset, self.kind.weight_factor
        if self.kind.is_plain:
            return Destination(self.weight, shape)
        return Destination(self.weight, shape, lambda stored: (stored.float() + offset) * factor)


class RmsNorm:
    """x / √(mean(x²) + eps) · weight over the last dimension (Zhang and Sennrich 2019).

    weight: [D], or [heads, D] if each head has its own; float32 if it is computed from the
            checkpoint's weight, where rounding would cost digits
    output: the format that the projection behind the norm wants; None: a tensor
    """

    def __init__(
        self,
        weight: Tensor,
        eps: float,
        parts: Mapping[str, _Part] | None = None,
        output: InputFormat | None = None,
    ) -> None:
        """parts: rows of `weight`, by the name of the checkpoint tensor that fills them"""
        self.weight = weight
        self.eps = eps
        self.output = output
        self._parts = parts or {}

    @classmethod
    def create(
        cls,
        place: Placement,
        name: str,
        dim: int,
        kind: NormKind,
        output: InputFormat | None = None,
        tensor: str = "weight",
    ) -> RmsNorm:
        """A norm with uninitialised weights, `name`.`tensor` in the checkpoint."""
        weight = _empty(place, kind, dim)
        part = _Part(weight, kind)
        return cls(weight, kind.eps, {f"{place.prefix}{name}.{tensor}": part}, output)

    @classmethod
    def of_heads(
        cls,
        place: Placement,
        num_heads: Mapping[str, int],
        head_dim: int,
        kind: NormKind,
        num_plain: int = 0,
    ) -> RmsNorm:
        """A norm for the heads of several maps; the checkpoint has one weight [head_dim] for each
        map.

        num_heads: heads of each map, by its name
        num_plain: heads behind those, which have no weights
        """
        sizes = list(num_heads.values())
        weight = _empty(place, kind, sum(sizes) + num_plain, head_dim)
        weight[sum(sizes) :] = 1.0
        parts = {
            f"{place.prefix}{name}.weight": _Part(rows, kind)
            for name, rows in zip(num_heads, weight[: sum(sizes)].split(sizes), strict=True)
        }
        return cls(weight, kind.eps, parts)

    def add(self, residual: Tensor, product: PartialSums) -> tuple[Tensor, ProjectionInput]:
        """The sum of residual and product, both [T, D], and its norm."""
        product, peers = product.with_peers(residual.dtype)
        if self.output is not None:
            return self.output.of_added_norm(residual, product, self.weight, self.eps, peers)
        scales = product.scales
        return add_rms_norm(residual, product.unscaled, self.weight, self.eps, scales, peers)

    def into(self, output: Tensor, x: Tensor, row_ids: Tensor | None = None) -> None:
        """Write the norm of x [T, D], or of x[row_ids], int [T], to output [T, D]."""
        norm_into(output, x, self.weight, self.eps, row_ids)

    def __call__(self, x: Tensor) -> ProjectionInput:
        """The norm of x [..., D], in the same shape and dtype, or in the format of `output`."""
        if self.output is not None:
            return self.output.of_norm(x, self.weight, self.eps)
        return rms_norm(x, self.weight, self.eps)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return {name: part.destination() for name, part in self._parts.items()}


class NoNorm:
    """Takes the place of a norm that a layer does not have: it passes the stream on unchanged."""

    def add(self, residual: Tensor, product: PartialSums) -> tuple[Tensor, Tensor]:
        """The sum of residual and product, both [T, D], returned as both results."""
        total = residual + product.total(residual.dtype)
        return total, total

    def __call__(self, x: Tensor) -> Tensor:
        """x itself."""
        return x

    def destinations(self) -> dict[str, Destination]:
        """Empty: there are no weights."""
        return {}


@dataclass(frozen=True, eq=False)
class WholeNorms:
    """One norm over all query heads together, and one over all key heads, as in OLMo 2.

    queries, keys: their norms, with weights [heads · head_dim] for the heads of this rank
    ranks: the ranks that together have all heads; they sum the squares
    key_ranks: the ranks among which the key heads are cut; one of them may stand for several of
               `ranks`
    """

    queries: RmsNorm
    keys: RmsNorm
    ranks: Ranks = ONE_RANK
    key_ranks: Ranks = ONE_RANK

    @classmethod
    def create(
        cls,
        place: Placement,
        num_heads: Mapping[str, int],
        head_dim: int,
        kind: NormKind,
        key_ranks: Ranks,
    ) -> WholeNorms:
        """Norms with uninitialised weights. num_heads: heads of queries, then of keys, by their
        norm's name"""
        queries, keys = (
            RmsNorm.create(place, name, count * head_dim, kind) for name, count in num_heads.items()
        )
        return cls(queries, keys, place.ranks, key_ranks)

    def __call__(self, heads: Tensor) -> Tensor:
        """The normed heads: [T, heads, head_dim], queries first → the same shape."""
        if self.ranks.size > 1:
            return self._across_ranks(heads)
        flat = heads.flatten(1)
        output = torch.empty(flat.shape, dtype=flat.dtype, device=flat.device)
        num_queries = len(self.queries.weight)
        self.queries.into(output[:, :num_queries], flat[:, :num_queries])
        self.keys.into(output[:, num_queries:], flat[:, num_queries:])
        return output.view(heads.shape)

    def _across_ranks(self, heads: Tensor) -> Tensor:
        norms = self.queries, self.keys
        sizes = [len(norm.weight) for norm in norms]
        parts = heads.flatten(1).float().split(sizes, 1)
        squares = torch.stack([part.square().sum(1) for part in parts])
        squares = self.ranks.collectives.sum(squares)
        normed = [
            part * (total[:, None] / (size * self.ranks.size) + norm.eps).rsqrt() * norm.weight
            for part, total, size, norm in zip(parts, squares, sizes, norms, strict=True)
        ]
        return torch.cat(normed, 1).to(heads.dtype).view(heads.shape)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        cut = (self.queries, self.ranks), (self.keys, self.key_ranks)
        return {name: it for norm, ranks in cut for name, it in _shards_of(norm, ranks).items()}


def _shards_of(norm: RmsNorm, ranks: Ranks) -> dict[str, Destination]:
    """Where the weights of a norm go that is cut among ranks."""
    parts = norm.destinations()
    whole = {
        name: replace(part, shape=(part.shape[0] * ranks.size,)) for name, part in parts.items()
    }
    return shards(whole, parts, ranks)


def _empty(place: Placement, kind: NormKind, *shape: int) -> Tensor:
    return place.empty(*shape, dtype=None if kind.is_plain else torch.float32)
