"""Owns the counts of drafts by who proposed them."""

from __future__ import annotations

from collections.abc import Sequence

from specguide.batch import DRAFT_ORIGINS
from specguide.engine.observers import Committed


class DraftCounts:
    """Counts for each request who proposed its drafts, and how many of them were taken."""

    def take(self, committed: Committed) -> None:
        """Add to the metrics of the batch's requests."""
        output = committed.output
        if output.origins is None or committed.batch.is_prefill:
            return
        origins, num_tokens = output.origins.tolist(), output.num_tokens.tolist()
        for row, request, advance in committed.rows():
            if advance.tokens:
                names = [DRAFT_ORIGINS[origin] for origin in origins[row] if origin]
                num_taken = min(len(advance.tokens), num_tokens[row] - 1)
                _add(request.metrics.drafts_proposed, names)
                _add(request.metrics.drafts_accepted, names[:num_taken])


def _add(counts: dict[str, int], names: Sequence[str]) -> None:
    for name in names:
        counts[name] = counts.get(name, 0) + 1
