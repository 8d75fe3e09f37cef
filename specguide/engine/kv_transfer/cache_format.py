"""Owns the format of an engine's pages: engines with equal formats can exchange pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specguide.cache import KVCache
from specguide.config.resolved import ResolvedConfig
from specguide.engine.kv_transfer.wire import CacheFormat
from specguide.engine.setup.checkpoint_identity import identity
from specguide.engine.setup.target_folder import SHIPPED_MODEL, target_folder

_PROTOCOL = "2"


def format_of(config: ResolvedConfig, caches: Sequence[KVCache]) -> CacheFormat:
    """The format of an engine's pages. caches: the target's first"""
    memories = [memory for cache in caches for memory in cache.memories]
    shapes = [(memory.shape[1], *memory.shape[4:]) for memory in memories]
    return CacheFormat(
        release=_PROTOCOL,
        model=identity(target_folder(config.model)),
        quantization=config.quantization or "",
        drafter=_drafter(config) if len(caches) > 1 else "",
        dtype=config.dtype,
        cache_dtype=config.cache_dtype,
        page_size=config.cache.page_size,
        shapes=shapes,
        adapters=[(name, identity(folder)) for name, folder in config.adapters.items()],
    )


def _drafter(config: ResolvedConfig) -> str:
    spec = config.spec
    assert spec is not None
    place = SHIPPED_MODEL if spec.model is None else Path(spec.model)
    return f"{spec.method} {spec.quantization or ''} {identity(place)}"
