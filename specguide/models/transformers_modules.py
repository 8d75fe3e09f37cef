"""Owns the modules that replace a transformers model's own, and Pages, through which its attention
reads the paged cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from specguide.cache import KVCache
from specguide.kernels import rope_and_store
from specguide.kernels.attention import AttentionForm, PassContext
from specguide.layers.projection import Projection
from specguide.models.transformers_trial import LayerAttention


class Pages:
    """What the attention of all layers reads in a pass; it is set before the pass.

    aux: wanted inputs of layers, by layer
    """

    context: PassContext
    cache: KVCache
    still: Tensor
    aux: dict[int, Tensor | None]

    def __init__(self, layers: tuple[LayerAttention, ...]) -> None:
        self.layers = layers
        self.aux = {}

    def begin(self, context: PassContext, cache: KVCache, dtype: torch.dtype) -> None:
        """Set what the coming pass reads."""
        self.context = context
        self.cache = cache
        # The model has rotated the keys already: the kernel that stores them gets a rotation by 0.
        shape = (len(context.position_ids), 2, 1, self.layers[0].head_dim)
        self.still = torch.zeros(shape, dtype=dtype, device=context.position_ids.device)
        self.still[:, 0].fill_(1.0)

    def attend(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, asked: dict[str, Any]
    ) -> Tensor:
        """Attend: query [1, heads, T, head_dim] → [1, T, heads, head_dim]; see Recorder."""
        layer = self.layers[module.layer_idx]
        index = module.layer_idx
        key_cache, value_cache = self.cache.keys[index], self.cache.values[index]
        query_key = torch.cat((query[0], key[0])).transpose(0, 1).contiguous()
        values = value[0].transpose(0, 1).contiguous()
        slots = self.context.slot_mapping
        query = rope_and_store(query_key, values, self.still, key_cache, value_cache, slots)
        attended = self.context.plan.run(
            query,
            key_cache,
            value_cache,
            AttentionForm(layer.scale, layer.window, asked.get("s_aux"), softcap=layer.softcap),
        )
        assert isinstance(attended, Tensor)  # no rounding was asked for
        return attended[None]


class ProjectionModule(nn.Module):
    """A Projection in the place of an nn.Linear."""

    def __init__(self, projection: Projection) -> None:
        super().__init__()
        self.projection = projection

    def forward(self, x: Tensor) -> Tensor:
        """The product: x [..., in_features] → [..., out_features]."""
        return self.projection.forward(x.flatten(0, -2)).unflatten(0, x.shape[:-1])


class GivenBody(nn.Module):
    """Replaces the body of a model when its hidden states are already known."""

    hidden: Tensor

    @property
    def decoder(self) -> GivenBody:
        """The body itself, since some models ask the body for its `decoder`."""
        return self

    def forward(self, *args: Any, **others: Any) -> Any:
        """The body's output: the given hidden states [n, hidden_size]."""
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=self.hidden[None])


def materialise(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Allocate uninitialised memory for a model's parameters, which may be shared, and move its
    buffers with their values."""
    memory: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter not in memory:
                empty = torch.empty(parameter.shape, dtype=dtype, device=device)
                memory[parameter] = nn.Parameter(empty, requires_grad=False)
            if parameter is not None:
                module._parameters[name] = memory[parameter]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = buffer.to(device)
