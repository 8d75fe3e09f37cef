"""Owns the counts of drafts by who proposed them."""

from __future__ import annotations

from collections.abc import Sequence

from specguide.batch import DRAFT_ORIGINS, Batch, StepOutput


def count_drafts(batch: Batch, output: StepOutput, lengths: Sequence[int]) -> None:
    """Add to the metrics of the batch's requests, which had outputs of `lengths` tokens before they
    took this one."""
    if output.origins is None or batch.is_prefill:
        return
    for request, origins, num_tokens, length in zip(
        batch.requests, output.origins.tolist(), output.num_tokens.tolist(), lengths, strict=True
    ):
        num_taken = len(request.output_ids) - length
        if num_taken:
            names = [DRAFT_ORIGINS[origin] for origin in origins if origin]
            _add(request.metrics.drafts_proposed, names)
            _add(request.metrics.drafts_accepted, names[: min(num_taken, num_tokens - 1)])


def _add(counts: dict[str, int], names: Sequence[str]) -> None:
    for name in names:
        counts[name] = counts.get(name, 0) + 1
