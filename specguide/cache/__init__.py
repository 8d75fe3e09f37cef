"""The paged KV cache: which pages are in use, their memory, and how many there are."""

from specguide.cache import tensors
from specguide.cache.pages import PageAllocator
from specguide.cache.sizing import CacheNeeds, CacheSize, cache_size, free_unused
from specguide.cache.states import SlotStates
from specguide.cache.tensors import CacheShape, KeyShape, KVCache, slot_mapping
from specguide.kernels import operation, triton

move_keys = operation(tensors.move_keys, lambda: triton.tree.move_keys)
place_nodes = operation(tensors.place_nodes, lambda: triton.nodes.place_nodes)
place_prompts = operation(tensors.place_prompts, lambda: triton.prompts.place_prompts)

__all__ = [
    "CacheNeeds",
    "CacheShape",
    "CacheSize",
    "KVCache",
    "KeyShape",
    "PageAllocator",
    "SlotStates",
    "cache_size",
    "free_unused",
    "move_keys",
    "place_nodes",
    "place_prompts",
    "slot_mapping",
]
