"""Owns the facts about device and target that are found before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import torch

from specguide.config import EngineConfig
from specguide.config.resolved import Facts, ResolvedConfig, resolve
from specguide.engine.setup.target_folder import target_folder
from specguide.errors import CheckpointError, InvalidParams
from specguide.inputs.json_fields import naming
from specguide.layers.quantization import CacheScheme
from specguide.models import ModelConfig, MtpHead, read_config
from specguide.models.cache_shape import cache_shape
from specguide.models.registry import FAMILIES
from specguide.parallel import ONE_RANK, Ranks, Stage
from specguide.tokenizer.images import reads_images


def resolved(config: EngineConfig) -> ResolvedConfig:
    """A configuration with all choices made for this machine.

    Raises CheckpointError for a target that cannot be read, InvalidParams for a device or size that
    does not fit.
    """
    return resolve(config, find_facts(config))


def find_facts(config: EngineConfig) -> Facts:
    """The facts about the device that is asked for, and about the target's folder. Raises as
    `resolved` does."""
    device = _device(_given(config.device))
    folder = target_folder(config.model)
    target = read_config(folder, model_impl=config.model_impl)
    _check_parts(config, target)
    with naming(folder):
        has_fp8_cache = _has_fp8_cache(config.cache.kv_cache_dtype, target.cache_scheme)
    return Facts(
        device=str(device),
        dtype=_dtype(_given(config.dtype) or ("bfloat16" if device.type == "cuda" else "float32")),
        max_positions=target.max_position_embeddings,
        own_head=next(iter(own_heads(config.model)), None),
        has_fp8_cache=has_fp8_cache,
        reads_images=reads_images(folder) and _is_native(config, target),
    )


def _check_parts(config: EngineConfig, target: ModelConfig) -> None:
    """Raises InvalidParams where the target cannot be divided among so many ranks or stages, before
    their processes are started."""
    Ranks(size=config.tensor_parallel_size).share(target.num_heads, "attention heads")
    num_stages = config.pipeline_parallel_size
    for stage in (Stage(rank, num_stages) for rank in range(num_stages)):
        cache_shape(target, ONE_RANK, stage)


def _is_native(config: EngineConfig, target: ModelConfig) -> bool:
    return config.model_impl != "transformers" and target.architecture in FAMILIES


def _given(name: str | None) -> str | None:
    return None if name == "auto" else name


def _has_fp8_cache(wanted: str, scheme: CacheScheme | None) -> bool:
    """Whether the KV cache is to be in fp8 because the checkpoint asks for it. Raises
    CheckpointError where it asks for a scheme that is not supported."""
    if wanted != "auto" or scheme is None:
        return False
    if scheme.problem is not None:
        raise CheckpointError(f"{scheme.problem}; set kv_cache_dtype to 'bfloat16' or 'fp8'")
    return True


def own_heads(model: str | Path | None) -> tuple[str, ...]:
    """The methods whose head comes with the target, the best one first."""
    if model is None:
        return "eagle3", "mtp"
    return ("mtp",) if MtpHead.is_in(model) else ()


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise InvalidParams(f"device {name!r} is unknown: {error}", param="device") from error
    if device.type not in ("cpu", "cuda"):
        raise InvalidParams(
            f'device {name!r} is not supported; use "cpu" or "cuda"', param="device"
        )
    return _cuda_device(device) if device.type == "cuda" else device


def _cuda_device(device: torch.device) -> torch.device:
    """The device with an explicit index, since each thread has its own current device."""
    if not torch.cuda.is_available():
        raise InvalidParams(
            f"device {str(device)!r}: torch finds no CUDA device here; set device to 'cpu', or see "
            "`specguide doctor`",
            param="device",
        )
    index = device.index
    num_devices = torch.cuda.device_count()
    if index is not None and index >= num_devices:
        raise InvalidParams(
            f"device {str(device)!r} does not exist: torch finds {num_devices} CUDA devices here, "
            f"and the last is 'cuda:{num_devices - 1}'",
            param="device",
        )
    return torch.device("cuda", torch.cuda.current_device() if index is None else index)


def _dtype(name: str) -> str:
    dtype = getattr(torch, name, None)
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise InvalidParams(
            f"dtype {name!r} is unknown; use float32, bfloat16 or float16", param="dtype"
        )
    return name
