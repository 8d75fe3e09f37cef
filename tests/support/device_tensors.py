"""Copies of all that an engine keeps on its device from one iteration to the next."""

from __future__ import annotations

import torch


def device_tensors(llm) -> dict[str, torch.Tensor]:
    """Copies of all that outlasts an iteration, but for what each iteration writes anew: the accept
    counts, and whether rows count."""
    step = llm._engine._executor.step
    passes = getattr(step, "_iteration", step)._passes
    state, rows = step._state, step._grammar
    tensors = {
        name: getattr(state, name)
        for name in ("active", "lengths", "max_lens", "end_ids", "block_table")
    }
    tensors |= {f"sampling.{name}": value for name, value in vars(state.sampling).items()}
    tensors |= {f"adjustments.{name}": value for name, value in vars(state.adjustments).items()}
    tensors |= {name: getattr(rows, name) for name in ("bitmask", "held")}
    tensors["tokens"] = state.nodes.tokens
    for name, cache in (("target", passes._cache), ("drafter", passes._drafter.cache)):
        tensors |= {f"{name} key {i}": keys for i, keys in enumerate(cache.keys)}
        tensors |= {f"{name} value {i}": values for i, values in enumerate(cache.values)}
    return {name: tensor.clone() for name, tensor in tensors.items()}
