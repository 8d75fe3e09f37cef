"""Owns Projection: a linear map with its weights, its names in a checkpoint and its product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from specguide.layers.destination import Destination
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.quantization import (
    Activation,
    InputFormat,
    ProjectionInput,
    ProjectionWeights,
)
from specguide.layers.sharding import Cut, added_once, shards, shards_of_sections
from specguide.parallel import ONE_RANK, Ranks


@dataclass(frozen=True, eq=False)
class Projection:
    """x · weightᵀ + bias. Several maps of a checkpoint may lie in one, so that they are one
    product.

    Its weights are the quantization's matter: whoever has a projection asks for products alone.

    weights: of the whole map
    maps:    of each map in the checkpoint, by its full name: a view of `weights`
    summed:  the ranks whose products are its product; one: its own is
    stored:  where the checkpoint's tensors go, of which this rank has a part; None: as `maps` say
    """

    weights: ProjectionWeights
    maps: Mapping[str, ProjectionWeights]
    summed: Ranks = ONE_RANK
    stored: Mapping[str, Destination] | None = None

    @classmethod
    def create(
        cls,
        place: Placement,
        in_features: int,
        outputs: Mapping[str, int],
        *,
        bias: bool = False,
        cut: Cut | None = None,
        sections: Sequence[int] = (),
    ) -> Projection:
        """Maps of the same input: `outputs` are their names, with their output features.

        cut: which features are divided among the ranks of `place`; None: each has all. Sizes are
             those of the whole map. Raises InvalidParams where they cannot be divided.
        sections: output features of the parts of the only map, where each is divided by itself
        """
        if cut is not None and place.ranks.size > 1:
            return cls._cut(place, in_features, outputs, bias, cut, sections)
        spec = place.matrix(sum(outputs.values()), in_features, outputs, bias=bias)
        weights = place.weights(spec)
        return cls(weights, dict(zip(spec.names, _views(weights.rows, outputs), strict=True)))

    @classmethod
    def _cut(
        cls,
        place: Placement,
        in_features: int,
        outputs: Mapping[str, int],
        bias: bool,
        cut: Cut,
        sections: Sequence[int],
    ) -> Projection:
        ranks, names = place.ranks, " and ".join(outputs)
        whole = cls.create(place.whole(), in_features, outputs, bias=bias).destinations()
        if cut == "outputs":
            outputs = {
                name: ranks.share(size, f"outputs of {name}") for name, size in outputs.items()
            }
            part = cls.create(place, in_features, outputs, bias=bias)
            mine = part.destinations()
            if sections:
                return replace(part, stored=shards_of_sections(whole, mine, ranks, sections))
            return replace(part, stored=shards(whole, mine, ranks))
        part = cls.create(place, ranks.share(in_features, f"inputs of {names}"), outputs, bias=bias)
        stored = shards(whole, part.destinations(), ranks)
        for name in stored:
            if name.endswith(".bias"):
                stored[name] = added_once(whole[name], stored[name], ranks)
        return replace(part, summed=ranks, stored=stored)

    @property
    def input_format(self) -> InputFormat | None:
        """How it wants its inputs; None: as tensors. Tensors it takes in any case."""
        return self.weights.input_format

    def forward(self, x: ProjectionInput) -> Tensor:
        """[T, in_features] → [T, out_features]."""
        product = self.weights.product(x)
        return product if self.summed.size == 1 else self.summed.collectives.sum(product)

    def forward_parts(self, x: ProjectionInput) -> PartialSums:
        """[T, in_features] → [T, out_features], for `RmsNorm.add`."""
        return replace(self.weights.product_parts(x), ranks=self.summed)

    def forward_gated(
        self,
        x: ProjectionInput,
        activation: Activation = "silu",
        wanted: InputFormat | None = None,
    ) -> ProjectionInput:
        """[T, in_features] → activation(gate) · up [T, out_features / 2], as `wanted` by who reads
        it; the first half of the output features is the gate."""
        return self.weights.product_gated(x, activation, wanted)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        if self.stored is not None:
            return dict(self.stored)
        return {
            f"{name}.{tensor}": destination
            for name, weights in self.maps.items()
            for tensor, destination in weights.destinations().items()
        }

    @property
    def num_bytes(self) -> int:
        """Memory of the weights, bytes."""
        return sum(it.tensor.nbytes for it in self.destinations().values())


def _views(
    part: Callable[[int, int], ProjectionWeights], sizes: Mapping[str, int]
) -> Iterator[ProjectionWeights]:
    """The parts, one behind the other."""
    start = 0
    for size in sizes.values():
        yield part(start, start + size)
        start += size
