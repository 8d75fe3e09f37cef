"""Choosing tokens: the parameters of a batch, adjusted logits, the acceptance rule and what follows
from it."""

from specguide.kernels import SamplingTensors, operation, triton
from specguide.sampling import accept, growth
from specguide.sampling.adjust import SlotAdjustments, adjust_logits, chain_paths
from specguide.sampling.adjustment import adjustment_of
from specguide.sampling.growth import GrowingTrees, TreeLevel
from specguide.sampling.processors import (
    Failures,
    RequestProcessors,
    bind_processors,
    process_logits,
)
from specguide.sampling.scores import score_tokens
from specguide.sampling.trees import SlotTrees
from specguide.sampling.verify import verify_chain, verify_tree

accept_chains = operation(accept.accept_chains, lambda: triton.chain.accept_chains)
accept_trees = operation(accept.accept_trees, lambda: triton.tree.accept_trees)
append_drafts = operation(accept.append_drafts, lambda: triton.chain.append_drafts)
finish_trees = operation(growth.finish_trees, lambda: triton.growth.finish_trees)
grow_trees = operation(growth.grow_trees, lambda: triton.growth.grow_trees)
store_drafts = operation(accept.store_drafts, lambda: triton.chain.store_drafts)

__all__ = [
    "Failures",
    "GrowingTrees",
    "RequestProcessors",
    "SamplingTensors",
    "SlotAdjustments",
    "SlotTrees",
    "TreeLevel",
    "accept_chains",
    "accept_trees",
    "adjust_logits",
    "adjustment_of",
    "append_drafts",
    "bind_processors",
    "chain_paths",
    "finish_trees",
    "grow_trees",
    "process_logits",
    "score_tokens",
    "store_drafts",
    "verify_chain",
    "verify_tree",
]
