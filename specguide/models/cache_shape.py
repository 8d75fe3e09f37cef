"""Owns what a model stores for each token on one rank."""

from __future__ import annotations

from specguide.cache import CacheShape, KeyShape
from specguide.errors import InvalidParams
from specguide.layers.attention import kv_heads_of_rank
from specguide.models.config import ModelConfig
from specguide.parallel import ONE_STAGE, Ranks, Stage


def cache_shape(config: ModelConfig, ranks: Ranks, stage: Stage = ONE_STAGE) -> CacheShape:
    """What the layers of a stage store on this rank. A stage without layers that store keys has
    pages of one, so that all ranks have the same pages. Raises InvalidParams where a stage reads
    keys that another one stores."""
    layers = config.key_layers(stage.layers(config.num_layers))
    keys = [_keys(config, layer, ranks) for layer in layers]
    if not layers:
        return CacheShape((_keys(config, 0, ranks),), ())
    sources = [config.key_source(layer) for layer in layers]
    far = [source for source in sources if source not in layers]
    if far:
        raise InvalidParams(
            f"{config.architecture} has layers that read the keys of layer {far[0]}, which lies on "
            "another stage: leave pipeline_parallel_size out",
            param="pipeline_parallel_size",
        )
    return CacheShape.of_layers(keys, [layers.index(source) for source in sources])


def _keys(config: ModelConfig, layer: int, ranks: Ranks) -> KeyShape:
    num_heads, head_dim = config.key_heads(layer)
    return KeyShape(1, kv_heads_of_rank(num_heads, ranks), head_dim, config.latent is None)
