"""Choosing tokens: adjusted logits, logits processors, the acceptance rule, the state that it
updates, and the growth of draft trees."""

from specguide.kernels import SamplingTensors, operation, triton
from specguide.sampling import accept, growth, synthetic
from specguide.sampling.accept import AcceptState, Branches
from specguide.sampling.adjust import SlotAdjustments, adjust_logits, chain_paths
from specguide.sampling.adjustment import adjustment_of
from specguide.sampling.growth import Frontier, GrowingTrees
from specguide.sampling.processors import (
    Failures,
    RequestProcessors,
    bind_processors,
    process_logits,
)
from specguide.sampling.scores import score_tokens
from specguide.sampling.synthetic import DraftedSlots, Pattern
from specguide.sampling.trees import SlotTrees
from specguide.sampling.verify import verify_chain, verify_tree

accept_by_pattern = operation(
    synthetic.accept_by_pattern, lambda: triton.synthetic.accept_by_pattern
)
accept_drafts = operation(accept.accept_drafts, lambda: triton.nodes.accept_drafts)
append_drafts = operation(accept.append_drafts, lambda: triton.drafts.append_drafts)
finish_trees = operation(growth.finish_trees, lambda: triton.tree_choice.finish_trees)
grow_trees = operation(growth.grow_trees, lambda: triton.growth.grow_trees)
store_drafts = operation(accept.store_drafts, lambda: triton.drafts.store_drafts)

__all__ = [
    "AcceptState",
    "Branches",
    "DraftedSlots",
    "Failures",
    "Frontier",
    "GrowingTrees",
    "Pattern",
    "RequestProcessors",
    "SamplingTensors",
    "SlotAdjustments",
    "SlotTrees",
    "accept_by_pattern",
    "accept_drafts",
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
