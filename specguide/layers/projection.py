"""Owns Projection: a linear map with its weights, its names in a checkpoint and its product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from specguide.layers.sharding import Cut, Section, added_once, shards, shards_of_sections
from specguide.parallel import ONE_RANK, Ranks


@dataclass(frozen=True, eq=False)
class Projection:
    """x · weightᵀ + bias. Several linear maps of a checkpoint may be stacked in one projection, so
    that they are a single product.

    The quantization decides the form of the weights; callers only ask for products.

    weights: the weights of all maps together
    maps:    the weights of each map in the checkpoint, by its full name: views of `weights`
    summed:  the ranks whose products have to be summed; one rank: its product is already complete
    stored:  where the checkpoint's tensors go if this rank keeps a part of them; None: as `maps`
             say
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
        sections: Sequence[Section] = (),
    ) -> Projection:
        """A projection with uninitialised weights. outputs: output features of its maps, by name.

        cut: which features are divided among the ranks of `place`; None: each rank has all. Sizes
             are those of the whole map. Raises InvalidParams if they cannot be divided.
        sections: output features of each map, or of the parts of maps, which are divided
                  separately; none: each map is divided among all ranks
        """
        if cut == "outputs" and place.ranks.size > 1:
            return cls._cut_by_outputs(place, in_features, outputs, bias, sections)
        if cut == "inputs" and place.ranks.size > 1:
            return cls._cut_by_inputs(place, in_features, outputs, bias)
        spec = place.matrix(sum(outputs.values()), in_features, outputs, bias=bias)
        weights = place.lora.beside(place.weights(spec), spec, outputs.values())
        return cls(weights, dict(zip(spec.names, _views(weights.rows, outputs), strict=True)))

    @classmethod
    def _cut_by_outputs(
        cls,
        place: Placement,
        in_features: int,
        outputs: Mapping[str, int],
        bias: bool,
        sections: Sequence[Section],
    ) -> Projection:
        whole = cls.create(place.whole(), in_features, outputs, bias=bias).destinations()
        sections = sections or [Section(size, place.ranks) for size in outputs.values()]
        of_maps = _of_maps(sections, outputs.values())
        outputs = {
            name: sum(section.share(f"outputs of {name}") for section in its)
            for name, its in zip(outputs, of_maps, strict=True)
        }
        part = cls.create(place, in_features, outputs, bias=bias)
        stored = dict[str, Destination]()
        for (name, weights), its in zip(part.maps.items(), of_maps, strict=True):
            mine = _destinations(name, weights)
            stored |= shards_of_sections({it: whole[it] for it in mine}, mine, its)
        return replace(part, stored=stored)

    @classmethod
    def _cut_by_inputs(
        cls, place: Placement, in_features: int, outputs: Mapping[str, int], bias: bool
    ) -> Projection:
        ranks = place.ranks
        names = " and ".join(outputs)
        whole = cls.create(place.whole(), in_features, outputs, bias=bias).destinations()
        part = cls.create(place, ranks.share(in_features, f"inputs of {names}"), outputs, bias=bias)
        stored = shards(whole, part.destinations(), ranks)
        for name in stored:
            if name.endswith(".bias"):
                stored[name] = added_once(whole[name], stored[name], ranks)
        return replace(part, summed=ranks, stored=stored)

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which it prefers its inputs; None: tensors. Tensors are always accepted."""
        return self.weights.input_format

    def forward(self, x: ProjectionInput) -> Tensor:
        """The product: x [T, in_features] → [T, out_features]."""
        product = self.weights.product(x)
        return product if self.summed.size == 1 else self.summed.collectives.sum(product)

    def forward_parts(self, x: ProjectionInput) -> PartialSums:
        """The product in parts, for `RmsNorm.add`: x [T, in_features] → [T, out_features]."""
        return replace(self.weights.product_parts(x), ranks=self.summed)

    def forward_gated(
        self,
        x: ProjectionInput,
        activation: Activation,
        wanted: InputFormat | None,
    ) -> ProjectionInput:
        """The gated product: x [T, in_features] → activation(gate) · up [T, out_features / 2]. The
        first half of the output features is the gate. wanted: the format that the next projection
        wants; None: a tensor"""
        return self.weights.product_gated(x, activation, wanted)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        if self.stored is not None:
            return dict(self.stored)
        every = (_destinations(name, weights) for name, weights in self.maps.items())
        return {name: destination for its in every for name, destination in its.items()}

    @property
    def num_bytes(self) -> int:
        """Memory of the weights, bytes."""
        return sum(it.tensor.nbytes for it in self.destinations().values())


def _of_maps(sections: Sequence[Section], sizes: Iterable[int]) -> list[list[Section]]:
    """The sections of each map, which has as many output features as they have together."""
    remaining = iter(sections)
    of_maps = []
    for size in sizes:
        its = [next(remaining)]
        while sum(section.size for section in its) < size:
            its.append(next(remaining))
        of_maps.append(its)
    return of_maps


def _destinations(name: str, weights: ProjectionWeights) -> dict[str, Destination]:
    """Where a map's tensors go, by their full names."""
    return {f"{name}.{tensor}": it for tensor, it in weights.destinations().items()}


def _views(
    part: Callable[[int, int], ProjectionWeights], sizes: Mapping[str, int]
) -> Iterator[ProjectionWeights]:
    """The parts of these sizes, one after another."""
    start = 0
    for size in sizes.values():
        yield part(start, start + size)
        start += size
