"""Owns SharedKeysAttention: attention over keys and values that an earlier layer has stored."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from specguide.kernels import rotate
from specguide.kernels.attention import AttentionForm
from specguide.layers.attention import AttentionShape, AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.norm import RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.rope import RopeConfig


@dataclass(frozen=True, eq=False)
class SharedKeysAttention:
    """Grouped-query attention with rotary positions that has no keys of its own; its caches are
    those of the layer whose keys it reads.

    query: input → num_heads · head_dim
    out:   num_heads · head_dim → hidden
    """

    shape: AttentionShape
    query: Projection
    query_norm: RmsNorm
    out: Projection
    cache_scales: None = None

    @classmethod
    def create(
        cls, place: Placement, hidden_size: int, shape: AttentionShape
    ) -> SharedKeysAttention:
        """Attention with uninitialised weights. The heads are divided among ranks. Raises
        InvalidParams if they cannot be divided."""
        assert shape.qk_norm is not None
        size = shape.num_heads * shape.head_dim
        num_heads = place.ranks.share(shape.num_heads, "attention heads")
        return cls(
            replace(shape, num_heads=num_heads),
            Projection.create(
                place, hidden_size, {"q_proj": size}, bias=shape.qkv_bias, cut="outputs"
            ),
            RmsNorm.of_heads(place, {"q_norm": num_heads}, shape.head_dim, shape.qk_norm),
            Projection.create(
                place, size, {"o_proj": hidden_size}, bias=shape.out_bias, cut="inputs"
            ),
        )

    @property
    def rope(self) -> RopeConfig:
        """How positions are turned into angles."""
        return self.shape.rope

    @property
    def input_format(self) -> InputFormat | None:
        """The format in which it prefers its input; None: a tensor."""
        return self.query.input_format

    def prepare(self) -> None:
        """Make what is derived from the weights: nothing."""

    def __call__(self, x: ProjectionInput, state: AttentionState) -> PartialSums:
        """Attend: x [T, input] → [T, hidden], or only the rows of the state's `outputs`."""
        shape, outputs = self.shape, state.outputs
        heads = state.wanted(self.query.forward(x)).unflatten(1, (-1, shape.head_dim))
        normed = self.query_norm(heads)
        assert isinstance(normed, Tensor)  # the norm has no other format
        query = rotate(normed, state.wanted(state.rotary), shape.rope.layout(shape.head_dim))
        if state.query_scales is not None:
            query = query * state.wanted(state.query_scales)
        context = state.context if outputs is None else outputs.context
        attended = context.plan.run(query, state.key_cache, state.value_cache, self._form)
        return self.out.forward_parts(
            attended.flatten(1) if isinstance(attended, Tensor) else attended
        )

    @property
    def _form(self) -> AttentionForm:
        shape, input_format = self.shape, self.out.input_format
        return AttentionForm(
            scale=shape.head_dim**-0.5 if shape.scale is None else shape.scale,
            sliding_window=shape.sliding_window,
            rounding=None if input_format is None else input_format.rounding,
            softcap=shape.softcap,
        )

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.query, self.query_norm, self.out)
