"""Owns the memory that an executor allocates once its models are loaded: KV caches and slot
table."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import torch

from specguide.cache import CacheNeeds, CacheShape, CacheSize, KVCache, cache_size
from specguide.cache.sizing import free_memory, in_words
from specguide.config.resolved import ResolvedConfig
from specguide.errors import InvalidParams
from specguide.kernels.float8 import FLOAT8, has_float8
from specguide.models import Decoder
from specguide.models.cache_shape import cache_shape
from specguide.slots import SlotSizes, SlotTable

_LOGGER = logging.getLogger(__name__)
_NUM_LOGIT_COPIES = 4
_SHORTEST = 2
"""Tokens of the shortest context: one of prompt, one of output."""
_SAVED_SHARE = 0.05
"""Part of the free memory in which states of linear attention are saved for later requests."""
_ENCODER_BYTES = 200 << 10
"""Room for what an encoder computes, beside its weights, for each vector of the largest image."""
_LIBRARY_BYTES = 1 << 30
"""Room for CUDA's context, cuBLAS's workspaces, loaded kernels and graphs."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The caches and the slot table.

    draft_cache: None where the drafter keeps no keys
    state_rows:  see Capabilities
    """

    size: CacheSize
    cache: KVCache
    draft_cache: KVCache | None
    slots: SlotTable
    state_rows: range | None

    @property
    def caches(self) -> tuple[KVCache, ...]:
        """The target's cache and, where it has one, the drafter's."""
        return (self.cache,) if self.draft_cache is None else (self.cache, self.draft_cache)

    @classmethod
    def allocate(
        cls, config: ResolvedConfig, target: Decoder, draft_keys: CacheShape | None
    ) -> Memory:
        """Allocate it. Raises InvalidParams where the device has too little memory, or does not
        support the cache's dtype."""
        of_target = cache_shape(target.config, target.ranks, target.stage)
        keys = [of_target, *([] if draft_keys is None else [draft_keys])]
        state_rows = _state_rows(config, target)
        states = target.new_states(state_rows.stop, config.layout.num_nodes) if state_rows else None
        dtype = _cache_dtype(config, target)
        size = _cache_size(config, target, keys, dtype)
        least = target.stage.world.least(size.num_pages, target.device)
        num_bytes = size.num_bytes * least // size.num_pages
        state_bytes = 0 if states is None else states.num_bytes
        size = replace(size, num_pages=least, num_bytes=num_bytes, state_bytes=state_bytes)
        if config.may_shorten:
            config, size = _shortened(config, size)
        cache, *draft_cache = (
            KVCache.allocate(shape, size.num_pages, config.cache.page_size, dtype, target.device)
            for shape in keys
        )
        cache = replace(cache, states=states)
        sizes = SlotSizes(
            config.max_batch_size + 1,
            _num_pages(config, config.max_model_len),
            config.cache.page_size,
            target.config.vocab_size,
            config.layout,
            has_adapters=bool(config.adapters),
            has_states=state_rows is not None,
            **_image_sizes(target),
        )
        is_guided = config.guide is not None
        slots = SlotTable(sizes, target.device, is_shared_with_host=is_guided)
        draft = draft_cache[0] if draft_cache else None
        saved = None if state_rows is None else state_rows[sizes.num_slots :]
        return cls(size, cache, draft, slots, saved)


def _image_sizes(target: Decoder) -> dict[str, int]:
    """The sizes of a slot table of a target that reads images; none of one that does not."""
    if target.images is None:
        return {}
    num_axes = len(target.config.rope.sections)
    return {"image_token_id": target.images.token_id, "num_axes": num_axes}


def _state_rows(config: ResolvedConfig, target: Decoder) -> range | None:
    """The rows of memory for states: of all slots, then for saved ones; None where the target has
    no linear attention. Raises InvalidParams where the device has too little memory."""
    if target.config.linear is None:
        return None
    num_slots, shape = config.max_batch_size + 1, target.state_shape()
    num_saved = config.max_batch_size
    if shape is not None:
        row_bytes = shape.num_bytes(1, config.layout.num_nodes, target.dtype)
        free = free_memory(target.device)
        if num_slots * row_bytes > free:
            raise InvalidParams(
                f"the states of linear attention need {in_words(num_slots * row_bytes)} for "
                f"max_batch_size {config.max_batch_size}, but only {in_words(free)} of memory are "
                "free: lower max_batch_size, or let fewer drafts be made",
                param="max_batch_size",
            )
        num_saved = min(num_saved, int(_SAVED_SHARE * free) // row_bytes)
    return range(num_slots + target.stage.world.least(num_saved, target.device))


def _shortened(config: ResolvedConfig, size: CacheSize) -> tuple[ResolvedConfig, CacheSize]:
    """The same with max_model_len lowered to what the cache has room for. Raises InvalidParams
    where it has no room at all."""
    longest = size.num_pages * size.page_size - _num_behind(config)
    if longest < _SHORTEST:
        raise InvalidParams(
            f"a KV cache of {size.num_pages} pages of {size.page_size} tokens is too small for any "
            "request: raise num_pages, kv_cache_memory_bytes or gpu_memory_utilization",
            param="num_pages",
        )
    config = replace(config, max_model_len=min(config.max_model_len, longest))
    pages = _num_pages(config, config.max_model_len)
    return config, replace(size, max_model_len=config.max_model_len, request_pages=pages)


def _num_pages(config: ResolvedConfig, length: int) -> int:
    """Most pages of one request of `length` tokens."""
    return -(-(length + _num_behind(config)) // config.cache.page_size)


def _num_behind(config: ResolvedConfig) -> int:
    """Most positions that a request uses behind its last token: after its end it still runs until
    the host knows, which takes the drafts of two iterations."""
    return config.layout.num_drafts + config.layout.num_positions + 1


def _cache_dtype(config: ResolvedConfig, target: Decoder) -> torch.dtype:
    """The dtype of keys and values, also of a drafter's. Raises InvalidParams where the GPU does
    not support it."""
    dtype: torch.dtype = getattr(torch, config.cache_dtype)
    if dtype != FLOAT8:
        return dtype
    if target.config.latent is not None:
        raise InvalidParams(
            "kv_cache_dtype 'fp8' is not supported for latent attention "
            f"({target.config.architecture}): use 'bfloat16'",
            param="kv_cache_dtype",
        )
    if not has_float8(target.device):
        raise InvalidParams(
            "kv_cache_dtype 'fp8' needs a GPU of compute capability 8.9 (Ada, Hopper) or later: "
            "use 'bfloat16'",
            param="kv_cache_dtype",
        )
    if target.has_cache_scales():
        _refuse_shared(target)
    else:
        _LOGGER.warning(
            "the KV cache is in fp8, but the checkpoint has no scales for it (k_scale, v_scale): "
            "scales of 1.0 are used, and outputs may be less accurate than with 'bfloat16'"
        )
    return dtype


def _refuse_shared(target: Decoder) -> None:
    """Raise InvalidParams if layers read the keys of others, whose scales they would need."""
    config = target.config
    if any(config.key_source(layer) != layer for layer in range(config.num_layers)):
        raise InvalidParams(
            "kv_cache_dtype 'fp8' with the scales of the checkpoint is not supported for layers "
            f"that share keys ({config.architecture}): use 'bfloat16'",
            param="kv_cache_dtype",
        )


def _cache_size(
    config: ResolvedConfig, target: Decoder, keys: list[CacheShape], dtype: torch.dtype
) -> CacheSize:
    num_numbers = sum(shape.num_numbers for shape in keys)
    page_bytes = config.cache.page_size * num_numbers * dtype.itemsize
    num_nodes = config.max_batch_size * config.layout.num_nodes
    needs = CacheNeeds(
        page_bytes,
        _num_pages(config, config.max_model_len),
        _num_pages(config, _SHORTEST if config.may_shorten else config.max_model_len),
        config.max_model_len,
        config.max_batch_size,
        _activation_bytes(target, config.max_prefill_tokens, num_nodes)
        + config.max_image_tokens * _ENCODER_BYTES * (target.device.type == "cuda"),
    )
    return cache_size(config.cache, needs, target.device)


def _activation_bytes(target: Decoder, max_prefill_tokens: int, num_nodes: int) -> int:
    """Upper bound of the memory that iterations need beside weights and cache, bytes.

    max_prefill_tokens, num_nodes: most prompt tokens in an iteration, and nodes of all slots

    Eager iterations and captured graphs have separate memory pools. Each pool holds, for one layer,
    the residual stream twice, the products before and after the activation, and queries, keys and
    values; for all layers their inputs beside the stream; and the logits, with the float32 copies
    that adjusting and scoring them takes.
    """
    config = target.config
    widths = (
        4 * config.hidden_size
        + 3 * config.intermediate_size
        + 2 * max(config.attention_width(layer) for layer in range(config.num_layers))
    )
    if config.layer_inputs is not None:
        widths += 3 * config.num_layers * config.layer_inputs.dim
    layer_bytes = (max_prefill_tokens + num_nodes) * widths * target.dtype.itemsize
    logits_bytes = num_nodes * config.vocab_size * (target.dtype.itemsize + _NUM_LOGIT_COPIES * 4)
    return 2 * (layer_bytes + logits_bytes) + _LIBRARY_BYTES
