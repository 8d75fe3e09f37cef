"""Owns the size of the KV cache: by default, what the device's memory has left once everything else
is allocated."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass

import torch

from specguide.config import CacheConfig
from specguide.errors import InvalidParams
from specguide.host import machine

_GIB = 1 << 30
_MIB = 1 << 20
_CPU_SHARE = 0.25
_LOGGER = logging.getLogger(__name__)


def in_words(num_bytes: float) -> str:
    """A size in GiB or MiB, for people."""
    is_large = num_bytes >= _GIB
    return f"{num_bytes / (_GIB if is_large else _MIB):.1f} {'GiB' if is_large else 'MiB'}"


@dataclass(frozen=True)
class CacheSize:
    """How large a KV cache is.

    num_pages:     pages in all
    page_size:     tokens a page
    num_bytes:     memory of all layers, the drafter's included
    max_model_len: tokens of a request of full context
    request_pages: pages of such a request, with room for drafts beyond its end
    state_bytes:   memory of the states of linear attention, beside `num_bytes`
    """

    num_pages: int
    page_size: int
    num_bytes: int
    max_model_len: int
    request_pages: int
    state_bytes: int = 0

    def __str__(self) -> str:
        tokens = self.num_pages * self.page_size
        contexts = self.num_pages / self.request_pages
        states = f"; {in_words(self.state_bytes)} of states" if self.state_bytes else ""
        return (
            f"KV cache: {in_words(self.num_bytes)}, {tokens:,} tokens, that is "
            f"{contexts:.1f} requests of full context ({self.max_model_len:,} tokens){states}"
        )


@dataclass(frozen=True)
class CacheNeeds:
    """What the size of a cache depends on.

    page_bytes:       bytes that one page takes over all layers
    max_model_len:    tokens of a request of full context
    request_pages:    pages of such a request, with room for drafts beyond its end
    least_pages:      pages of a request of the shortest context with which an engine is useful
    max_batch_size:   requests that run at once
    activation_bytes: memory that iterations need beside weights and cache
    """

    page_bytes: int
    request_pages: int
    least_pages: int
    max_model_len: int
    max_batch_size: int
    activation_bytes: int


def cache_size(config: CacheConfig, needs: CacheNeeds, device: torch.device) -> CacheSize:
    """The size of the cache on `device`, which has the weights already. Raises InvalidParams where
    the cache would be too small, or memory has no room for it."""
    num_pages = config.num_pages
    if num_pages is None:
        num_bytes, whence = _available(config, needs, device)
        num_pages = num_bytes // needs.page_bytes
        if num_pages < needs.least_pages:
            raise _too_small(config, needs, num_bytes, whence)
    elif num_pages < needs.least_pages:
        _LOGGER.warning(
            "the KV cache has %d pages, too few for a request of max_model_len (%d tokens, %d "
            "pages): a request with more than about %d tokens of prompt and max_tokens together is "
            "refused; give the KV cache more memory, or lower max_model_len",
            num_pages,
            needs.max_model_len,
            needs.request_pages,
            max(0, num_pages * config.page_size - _num_behind(config, needs)),
        )
    _check_room(config, num_pages * needs.page_bytes, device)
    return CacheSize(
        num_pages,
        config.page_size,
        num_pages * needs.page_bytes,
        needs.max_model_len,
        needs.request_pages,
    )


def _available(config: CacheConfig, needs: CacheNeeds, device: torch.device) -> tuple[int, str]:
    """Bytes for the cache, and words that say where this number comes from."""
    if config.kv_cache_memory_bytes is not None:
        return config.kv_cache_memory_bytes, "kv_cache_memory_bytes is"
    if device.type != "cuda":
        wanted = needs.max_batch_size * needs.request_pages * needs.page_bytes
        share = int(_CPU_SHARE * machine.free_memory())
        return min(wanted, share), "a quarter of the free memory is"
    free, total = _gpu_memory(device)
    allowed = int(config.gpu_memory_utilization * total) - torch.cuda.memory_reserved(device)
    left = min(allowed, free) - needs.activation_bytes
    return max(0, left), (
        f"gpu_memory_utilization {config.gpu_memory_utilization:g} of {in_words(total)} "
        f"leaves, beside the weights and {in_words(needs.activation_bytes)} for activations,"
    )


def _check_room(config: CacheConfig, num_bytes: int, device: torch.device) -> None:
    """Raises InvalidParams where the configured size is more than the free memory."""
    given = [name for name in ("num_pages", "kv_cache_memory_bytes") if getattr(config, name)]
    if not given:
        return
    free = free_memory(device)
    if num_bytes > free:
        raise InvalidParams(
            f"{given[0]} asks for a KV cache of {in_words(num_bytes)}, but only "
            f"{in_words(free)} of memory are free: lower it, or leave it out",
            param=given[0],
        )


def _num_behind(config: CacheConfig, needs: CacheNeeds) -> int:
    """Tokens of drafts beyond a request's end, and of the unused rest of its last page."""
    return needs.request_pages * config.page_size - needs.max_model_len


def _too_small(
    config: CacheConfig, needs: CacheNeeds, num_bytes: int, whence: str
) -> InvalidParams:
    per_token = needs.page_bytes / config.page_size
    longest = int(num_bytes / per_token) - _num_behind(config, needs) - config.page_size
    remedy = f"set max_model_len to {longest} or less, or raise" if longest >= 2 else "raise"
    other = "gpu_memory_utilization or " if whence.startswith("gpu_") else ""
    return InvalidParams(
        f"one request of max_model_len ({needs.max_model_len} tokens) needs a KV cache of "
        f"{in_words(needs.request_pages * needs.page_bytes)}, but {whence} only "
        f"{in_words(num_bytes)}; {remedy} {other}kv_cache_memory_bytes",
        param="max_model_len",
    )


def free_memory(device: torch.device) -> int:
    """Bytes of memory that are free on a device."""
    return _gpu_memory(device)[0] if device.type == "cuda" else machine.free_memory()


def _gpu_memory(device: torch.device) -> tuple[int, int]:
    """Free bytes and all bytes of a GPU."""
    free_unused(device)
    return torch.cuda.mem_get_info(device)


def free_unused(device: torch.device) -> None:
    """Give back the GPU memory of engines that are gone; does nothing on a CPU. Call it before
    weights are read, too: a weight that lands in the memory of an old KV cache keeps all of it."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
