"""Choosing tokens: the parameters of a batch and the acceptance rule."""

from specguide.kernels import SamplingTensors
from specguide.sampling.verify import verify_chain, verify_tree

__all__ = ["SamplingTensors", "verify_chain", "verify_tree"]
