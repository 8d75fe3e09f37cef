"""The narrow interface to everything that runs on the device beside matrix products."""

from specguide.kernels.reference import paged_attention, store_kv

__all__ = ["paged_attention", "store_kv"]
