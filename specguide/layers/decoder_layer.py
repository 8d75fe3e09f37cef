"""Owns the layers of a decoder: Layer, the interface; DecoderLayer, with a norm before attention
and before feed-forward; and SandwichLayer, which also has a norm behind each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from specguide.layers.attention import AttentionState
from specguide.layers.cache_scales import CacheScales
from specguide.layers.destination import Destination, merged
from specguide.layers.feed_forward import FeedForward, GatedMlp
from specguide.layers.linear_attention import LinearState
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.rope import RopeConfig

LayerState = AttentionState | LinearState
"""What a layer's attention reads and writes in a pass, by its kind."""


class SelfAttention(Protocol):
    """A kind of attention.

    rope:         how it turns positions into angles; None: linear attention, which has none
    cache_scales: scales of a float8 cache; None: it stores no keys
    input_format: the format in which it prefers its input; None: a tensor
    """

    @property
    def rope(self) -> RopeConfig | None: ...

    @property
    def cache_scales(self) -> CacheScales | None: ...

    @property
    def input_format(self) -> InputFormat | None: ...

    def prepare(self) -> None:
        """Make what is derived from the weights, once they are loaded."""

    def __call__(self, x: ProjectionInput, state: Any) -> PartialSums:
        """Attend: x [T, input] → [T, hidden], or only the rows of the state's `outputs`. The state
        is a LinearState where there is no rope, else an AttentionState."""

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""


class Layer(Protocol):
    """One layer of the residual stream. A residual sum and the norm that follows it are one kernel,
    so a layer is called with the first norm of the next layer.

    input_norm: norm of the stream as it enters
    attention:  its rope tells which rotary table the layer reads
    """

    @property
    def input_norm(self) -> RmsNorm | NoNorm: ...

    @property
    def attention(self) -> SelfAttention: ...

    def __call__(
        self,
        hidden: Tensor,
        normed: ProjectionInput,
        next_norm: RmsNorm | NoNorm,
        state: LayerState,
    ) -> tuple[Tensor, ProjectionInput]:
        """hidden [T, hidden_size] and its `input_norm` → the layer's output, and the `next_norm` of
        this output. If the state names `outputs`, both have only the rows of these tokens."""

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""


@dataclass(frozen=True, eq=False)
class DecoderLayer:
    """hidden + attention(norm(hidden)), then + feed_forward(norm(·))."""

    input_norm: RmsNorm
    attention: SelfAttention
    post_attention_norm: RmsNorm
    feed_forward: FeedForward

    def __call__(
        self,
        hidden: Tensor,
        normed: ProjectionInput,
        next_norm: RmsNorm | NoNorm,
        state: LayerState,
    ) -> tuple[Tensor, ProjectionInput]:
        """See Layer."""
        attended = self.attention(normed, state)
        hidden, normed = self.post_attention_norm.add(state.wanted(hidden), attended)
        return next_norm.add(hidden, self.feed_forward(normed))

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.input_norm, self.attention, self.post_attention_norm, self.feed_forward)


@dataclass(frozen=True, eq=False)
class SandwichLayer:
    """hidden + norm(attention(norm(hidden))), then + norm(mlp(norm(·))); the inner norms may be
    missing."""

    input_norm: RmsNorm | NoNorm
    attention: SelfAttention
    post_attention_norm: RmsNorm
    pre_mlp_norm: RmsNorm | NoNorm
    mlp: GatedMlp
    post_mlp_norm: RmsNorm

    def __call__(
        self,
        hidden: Tensor,
        normed: ProjectionInput,
        next_norm: RmsNorm | NoNorm,
        state: LayerState,
    ) -> tuple[Tensor, ProjectionInput]:
        """See Layer."""
        attended = self.attention(normed, state).total(hidden.dtype)
        attended = self.post_attention_norm(attended)
        hidden, normed = self.pre_mlp_norm.add(state.wanted(hidden), PartialSums.of(attended))
        inner = self.post_mlp_norm(self.mlp(normed).total(hidden.dtype))
        return next_norm.add(hidden, PartialSums.of(inner))

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        norms = self.input_norm, self.post_attention_norm, self.pre_mlp_norm, self.post_mlp_norm
        return merged(*norms, self.attention, self.mlp)
