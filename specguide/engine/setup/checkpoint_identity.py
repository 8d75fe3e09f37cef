"""Owns the hash of a checkpoint, by which two processes check that they have the same one."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from specguide.config.resolved import ResolvedConfig
from specguide.engine.setup.target_folder import target_folder

_NUM_SAMPLES = 32
_SAMPLE_BYTES = 4096
_WEIGHTS = ("*.safetensors", "*.gguf", "adapter_model.bin")
_CONFIGS = ("config.json", "adapter_config.json")


def checkpoints(config: ResolvedConfig) -> Iterator[Path]:
    """The paths of the target's checkpoint, of its adapters, and of the drafter's where one is
    named."""
    yield target_folder(config.model)
    yield from config.adapters.values()
    if config.spec is not None and config.spec.model is not None:
        yield Path(config.spec.model)


def identity(place: Path) -> str:
    """The hash of a checkpoint or an adapter: of its configuration, and of the sizes and samples of
    its weight files. It tells apart what was trained differently, without reading it whole."""
    digest = blake2b(digest_size=16)
    if place.is_file():
        files = [place]
    else:
        files = sorted(file for pattern in _WEIGHTS for file in place.glob(pattern))
        for config in filter(Path.is_file, (place / name for name in _CONFIGS)):
            digest.update(config.read_bytes())
    for file in files:
        size = file.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with file.open("rb") as opened:
            for sample in range(_NUM_SAMPLES):
                opened.seek(sample * size // _NUM_SAMPLES)
                digest.update(opened.read(_SAMPLE_BYTES))
    return digest.hexdigest()
