"""Choosing tokens: the parameters of a batch, adjusted logits, the acceptance rule and what follows
from it."""

from specguide.kernels import SamplingTensors, with_triton
from specguide.sampling import accept, growth
from specguide.sampling.adjust import SlotAdjustments, adjust_logits, chain_paths
from specguide.sampling.adjustment import Adjustment
from specguide.sampling.growth import GrowingTrees, TreeLevel
from specguide.sampling.processors import Failures, bind_processors, process_logits
from specguide.sampling.scores import score_tokens
from specguide.sampling.trees import SlotTrees
from specguide.sampling.verify import verify_chain, verify_tree

accept_chains = with_triton("chain", accept.accept_chains)
accept_trees = with_triton("tree", accept.accept_trees)
append_drafts = with_triton("chain", accept.append_drafts)
finish_trees = with_triton("growth", growth.finish_trees)
grow_trees = with_triton("growth", growth.grow_trees)
store_drafts = with_triton("chain", accept.store_drafts)

__all__ = [
    "Adjustment",
    "Failures",
    "GrowingTrees",
    "SamplingTensors",
    "SlotAdjustments",
    "SlotTrees",
    "TreeLevel",
    "accept_chains",
    "accept_trees",
    "adjust_logits",
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
