"""Owns the LoRA adapters of a model: Lora, which puts their matrices beside the weights of
projections, and LoraWeights, such weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor

from specguide.kernels import add_lora
from specguide.kernels.lora import LoraMatrices
from specguide.layers.destination import Destination
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization import MatrixSpec, ProjectionWeights

LORA_A, LORA_B = "lora_A", "lora_B"
_LEAST_RANK = 16
"""Ranks are padded to a power of two from here on: the sizes of a GPU's matrix tiles."""


@dataclass(frozen=True)
class LoraForm:
    """An adapter's part for one map: b [out_features, rank] · a [rank, in_features] · scale."""

    rank: int
    scale: float


class LoraRows:
    """The adapter of each row of the pass under way.

    adapter_ids: int32 [T]; 0: none, i: adapter i - 1
    """

    def __init__(self) -> None:
        self.adapter_ids: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Lora:
    """The adapters of a model.

    forms: for each adapter, its form for each map that it changes, by the map's full name
    rows:  which adapter each row has
    """

    forms: Sequence[Mapping[str, LoraForm]]
    rows: LoraRows = field(default_factory=LoraRows)

    def begin(self, adapter_ids: Tensor | None) -> None:
        """Begin a pass whose rows have these adapters, int32 [T]."""
        if self.forms:
            self.rows.adapter_ids = adapter_ids

    def beside(
        self, weights: ProjectionWeights, spec: MatrixSpec, sizes: Iterable[int]
    ) -> ProjectionWeights:
        """The weights with the adapters' matrices beside them; the same weights if no adapter
        changes any of their maps. sizes: output features of each map"""
        forms = tuple(tuple(of.get(name) for name in spec.names) for of in self.forms)
        ranks = [form.rank for of_maps in forms for form in of_maps if form is not None]
        if not ranks:
            return weights
        matrices = _zeros(spec, (0, *accumulate(sizes)), len(forms), max(ranks))
        return LoraWeights(weights, matrices, forms, self.rows)


NO_LORA = Lora(())


@dataclass(frozen=True, eq=False)
class LoraWeights(ProjectionWeights):
    """Weights in any form, with the matrices of adapters beside them, which stay in the dtype of
    the model. Each row of a product gets what its adapter adds.

    forms: of each adapter and map; None: the adapter leaves the map alone
    """

    base: ProjectionWeights
    matrices: LoraMatrices
    forms: tuple[tuple[LoraForm | None, ...], ...]
    lora_rows: LoraRows

    def destinations(self) -> dict[str, Destination]:
        """See ProjectionWeights; with those of adapter i, "lora_A.i" and "lora_B.i". Only for the
        weights of a single map."""
        destinations = self.base.destinations()
        for adapter, (form,) in enumerate(self.forms):
            if form is not None:
                a = self.matrices.a[adapter, 0, : form.rank]
                b = self.matrices.b[adapter, :, : form.rank]
                scaled = partial(_scaled, form.scale)
                destinations[f"{LORA_A}.{adapter}"] = Destination.of(a)
                destinations[f"{LORA_B}.{adapter}"] = replace(Destination.of(b), convert=scaled)
        return destinations

    def rows(self, start: int, stop: int) -> LoraWeights:
        """See ProjectionWeights; the output features must be those of one map."""
        place = self.matrices.sections.index((start, stop))
        a, b = self.matrices.a[:, place : place + 1], self.matrices.b[:, start:stop]
        forms = tuple(of_maps[place : place + 1] for of_maps in self.forms)
        part = LoraMatrices(a, b, (0, stop - start))
        return replace(self, base=self.base.rows(start, stop), matrices=part, forms=forms)

    def columns(self, start: int, stop: int) -> LoraWeights:
        part = replace(self.matrices, a=self.matrices.a[..., start:stop])
        return replace(self, base=self.base.columns(start, stop), matrices=part)

    def product(self, x: Tensor) -> Tensor:
        product = self.base.product(x)
        self._add(product, x)
        return product

    def product_parts(self, x: Tensor) -> PartialSums:
        parts = self.base.product_parts(x)
        if parts.scales is not None:  # what adapters add must not be scaled
            return PartialSums.of(self.product(x))
        self._add(parts.unscaled[0], x)
        return parts

    def _add(self, product: Tensor, x: Tensor) -> None:
        adapter_ids = self.lora_rows.adapter_ids
        assert adapter_ids is not None
        add_lora(product, x, self.matrices, adapter_ids)


def _zeros(
    spec: MatrixSpec, bounds: tuple[int, ...], num_adapters: int, max_rank: int
) -> LoraMatrices:
    rank = max(_LEAST_RANK, 1 << (max_rank - 1).bit_length())
    num_maps = len(spec.names)
    zeros = partial(torch.zeros, device=spec.device, dtype=spec.dtype)
    return LoraMatrices(
        zeros(num_adapters, num_maps, rank, spec.in_features),
        zeros(num_adapters, spec.out_features, rank),
        bounds,
    )


def _scaled(scale: float, b: Tensor) -> Tensor:
    """scale · b, rounded once."""
    return b.float() * scale
