"""Owns LayerInputs: what the embeddings give each layer of a decoder beside the residual stream
(per-layer embeddings, as in Gemma 4 E2B and E4B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from specguide.errors import InvalidParams
from specguide.kernels import rms_norm
from specguide.layers.destination import Destination, merged
from specguide.layers.lm_head import Embedding
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.models.config import ModelConfig
from specguide.parallel import Stage


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """(table[token] + norm(projection(embedding))) / √2, of each layer.

    table:      a vector for each token and layer, of which a token's lie side by side
    projection: hidden → layers · dim
    norm:       of a layer's part
    """

    table: Embedding
    projection: Projection
    norm: RmsNorm

    @classmethod
    def create(cls, place: Placement, config: ModelConfig, stage: Stage) -> LayerInputs | None:
        """Inputs with uninitialised weights, all of which each rank has; None: the layers have
        none. Raises InvalidParams for one of several stages.

        The projection's product is to be divided by √hidden_size, which changes no more in its norm
        than the number that is added to the mean square.
        """
        shape, kind, hidden_size = config.layer_inputs, config.norm, config.hidden_size
        if shape is None:
            return None
        if stage.num > 1:
            raise InvalidParams(
                f"{config.architecture} gives every layer inputs from the embeddings, which later "
                "stages do not have: leave pipeline_parallel_size out",
                param="pipeline_parallel_size",
            )
        width = config.num_layers * shape.dim
        name = f"{place.prefix}embed_tokens_per_layer.weight"
        kind = replace(kind, eps=kind.eps * hidden_size, weight_factor=0.5**0.5)
        return cls(
            Embedding(place.empty(shape.vocab_size, width), name, (shape.dim / 2) ** 0.5),
            Projection.create(place, hidden_size, {"per_layer_model_projection": width}),
            RmsNorm.create(place, "per_layer_projection_norm", shape.dim, kind),
        )

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Sequence[Tensor]:
        """The input of each layer, [T, dim]. hidden: the embeddings of the tokens [T, hidden]"""
        dim = len(self.norm.weight)
        product = self.projection.forward(hidden).unflatten(1, (-1, dim))
        normed = rms_norm(product, self.norm.weight, self.norm.eps)
        inputs = normed + self.table.forward(token_ids).view(normed.shape)
        return inputs.unbind(1)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        return merged(self.table, self.projection, self.norm)
