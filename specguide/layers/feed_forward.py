"""Owns GatedMlp, a feed-forward layer, and FeedForward, the interface that a decoder layer uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from specguide.layers.destination import Destination, merged
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import Activation, InputFormat, ProjectionInput
from specguide.layers.sharding import Section


class FeedForward(Protocol):
    """The part of a layer that follows the attention."""

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which the layer wants its input; None: a tensor."""

    def __call__(self, x: ProjectionInput) -> PartialSums:
        """x [T, hidden] → [T, hidden]."""

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""


@dataclass(frozen=True)
class MlpNames:
    """The checkpoint's names for the maps of a GatedMlp; gate and up may be a single map."""

    gate_up: tuple[str, ...] = ("gate_proj", "up_proj")
    down: str = "down_proj"


SEPARATE = MlpNames()
FUSED = MlpNames(("gate_up_proj",))


@dataclass(frozen=True, eq=False)
class GatedMlp:
    """down(activation(gate(x)) · up(x)) (GLU variants, Shazeer 2020); gate and up are one product.

    gate_up: hidden → 2 · intermediate, gate first
    down:    intermediate → hidden
    """

    gate_up: Projection
    down: Projection
    activation: Activation = "silu"

    @classmethod
    def create(
        cls,
        place: Placement,
        hidden_size: int,
        intermediate_size: int,
        *,
        bias: bool = False,
        activation: Activation = "silu",
        names: MlpNames = SEPARATE,
    ) -> GatedMlp:
        """An MLP with uninitialised weights; its inner features are divided among ranks. Raises
        InvalidParams if they cannot be divided."""
        place.ranks.share(intermediate_size, "inner features")
        share = 2 * intermediate_size // len(names.gate_up)
        both = dict.fromkeys(names.gate_up, share)
        sections = [Section(intermediate_size, place.ranks)] * 2
        return cls(
            Projection.create(
                place, hidden_size, both, bias=bias, cut="outputs", sections=sections
            ),
            Projection.create(
                place, intermediate_size, {names.down: hidden_size}, bias=bias, cut="inputs"
            ),
            activation,
        )

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which the layer wants its input; None: a tensor."""
        return self.gate_up.input_format

    def __call__(self, x: ProjectionInput) -> PartialSums:
        """x [T, hidden] → [T, hidden]."""
        inner = self.gate_up.forward_gated(x, self.activation, self.down.input_format)
        return self.down.forward_parts(inner)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.gate_up, self.down)
