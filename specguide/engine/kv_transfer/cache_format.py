"""Owns by what the pages of two engines are known to mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from specguide.cache import KVCache
from specguide.engine.kv_transfer.wire import CacheFormat
from specguide.engine.target_folder import SHIPPED_MODEL, target_folder
from specguide.resolved_config import ResolvedConfig

_PROTOCOL = "1"
_NUM_SAMPLES = 32
_SAMPLE_BYTES = 4096
_WEIGHTS = ("*.safetensors", "*.gguf")


def format_of(config: ResolvedConfig, caches: Sequence[KVCache]) -> CacheFormat:
    """The format of an engine's caches, the target's first."""
    shapes = [(cache.num_layers, *cache.memory.shape[4:]) for cache in caches]
    return CacheFormat(
        release=_PROTOCOL,
        model=identity(target_folder(config.model)),
        quantization=config.quantization or "",
        drafter=_drafter(config) if len(caches) > 1 else "",
        dtype=config.dtype,
        cache_dtype=config.cache_dtype,
        page_size=config.cache.page_size,
        shapes=shapes,
    )


def identity(place: Path) -> str:
    """Hash of a checkpoint: its configuration, and sizes and samples of its files of weights.

    It tells checkpoints apart that were trained differently, without reading all of them.
    """
    digest = blake2b(digest_size=16)
    if place.is_file():
        files = [place]
    else:
        files = sorted(file for pattern in _WEIGHTS for file in place.glob(pattern))
        config = place / "config.json"
        digest.update(config.read_bytes() if config.is_file() else b"")
    for file in files:
        size = file.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with file.open("rb") as opened:
            for sample in range(_NUM_SAMPLES):
                opened.seek(sample * size // _NUM_SAMPLES)
                digest.update(opened.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _drafter(config: ResolvedConfig) -> str:
    spec = config.spec
    assert spec is not None
    place = SHIPPED_MODEL if spec.model is None else Path(spec.model)
    return f"{spec.method} {spec.quantization or ''} {identity(place)}"
