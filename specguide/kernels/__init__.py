"""The narrow interface to everything that runs on the device beside matrix products."""

from specguide.kernels.reference import apply_bitmask, masked_argmax, masked_sample, paged_attention, store_kv
from specguide.kernels.sampling_tensors import SamplingTensors

__all__ = ["SamplingTensors", "apply_bitmask", "masked_argmax", "masked_sample", "paged_attention", "store_kv"]
