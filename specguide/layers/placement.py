"""Owns Placement: the device and dtype of a layer's weights, and their names in a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specguide.errors import CheckpointError, InvalidParams
from specguide.layers.lora import NO_LORA, Lora
from specguide.layers.quantization import (
    UNQUANTIZED,
    MatrixSpec,
    ProjectionWeights,
    Quantization,
)
from specguide.parallel import ONE_RANK, Ranks


@dataclass(frozen=True)
class Placement:
    """What all layers of a model are built with.

    device, dtype: device and dtype of the weights, and of inputs and outputs
    quantization:  how the checkpoint stores the weights of projections
    prefix:        prefix of the names of a layer's tensors in the checkpoint; "" or ending with a
                   dot
    ranks:         the ranks among which the layers are cut
    lora:          the adapters whose matrices stand beside the weights of projections
    """

    device: torch.device
    dtype: torch.dtype
    quantization: Quantization = UNQUANTIZED
    prefix: str = ""
    ranks: Ranks = ONE_RANK
    lora: Lora = NO_LORA

    def within(self, name: str) -> Placement:
        """The placement of the part `name` of this layer."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def whole(self) -> Placement:
        """The placement of a single rank without memory, which tells the shapes of whole
        tensors."""
        return replace(self, device=torch.device("meta"), ranks=ONE_RANK)

    def cut_where_possible(self, build: Callable[[Placement], object]) -> Placement:
        """This placement, or one for a single rank if the layers that `build` makes cannot be cut
        among the ranks."""
        try:
            build(replace(self, device=torch.device("meta")))
        except (CheckpointError, InvalidParams):
            return replace(self, ranks=ONE_RANK)
        return self

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Uninitialised memory."""
        return torch.empty(shape, device=self.device, dtype=dtype or self.dtype)

    def matrix(
        self, out_features: int, in_features: int, names: Iterable[str], *, bias: bool = False
    ) -> MatrixSpec:
        """A matrix made of the maps `names`, each a part of this layer."""
        return MatrixSpec(
            out_features=out_features,
            in_features=in_features,
            bias=bias,
            names=tuple(self.prefix + name for name in names),
            device=self.device,
            dtype=self.dtype,
        )

    def weights(self, spec: MatrixSpec) -> ProjectionWeights:
        """Uninitialised weights in the form of the quantization."""
        return self.quantization.create_weights(spec)
