"""The paged KV cache: page bookkeeping and page memory."""

from specguide.cache import tensors
from specguide.cache.pages import PageAllocator
from specguide.cache.sizing import CacheNeeds, CacheSize, cache_size
from specguide.cache.tensors import KVCache, page_num_bytes, slot_mapping
from specguide.kernels import with_triton

move_keys = with_triton("tree", tensors.move_keys)
place_chains = with_triton("chain", tensors.place_chains)
place_trees = with_triton("tree", tensors.place_trees)

__all__ = [
    "CacheNeeds",
    "CacheSize",
    "KVCache",
    "PageAllocator",
    "cache_size",
    "move_keys",
    "page_num_bytes",
    "place_chains",
    "place_trees",
    "slot_mapping",
]
