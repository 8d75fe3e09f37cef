"""The paged KV cache: page bookkeeping and page memory."""

from specguide.cache.pages import PageAllocator
from specguide.cache.tensors import KVCache, page_num_bytes, slot_mapping

__all__ = ["KVCache", "PageAllocator", "page_num_bytes", "slot_mapping"]
