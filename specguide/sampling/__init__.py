"""Choosing tokens: the parameters of a batch, the acceptance rule and what follows from it."""

from specguide.kernels import SamplingTensors, with_triton
from specguide.sampling import accept
from specguide.sampling.verify import verify_chain, verify_tree

accept_chains = with_triton("chain", accept.accept_chains)
store_drafts = with_triton("chain", accept.store_drafts)

__all__ = ["SamplingTensors", "accept_chains", "store_drafts", "verify_chain", "verify_tree"]
