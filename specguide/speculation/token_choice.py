"""Owns the choice of what the target says after each node: its logits, adjusted, under the rows of
the grammar."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.guided.buffers import GuideBuffers
from specguide.kernels import masked_argmax, masked_sample
from specguide.sampling import adjust_logits, chain_paths
from specguide.slots import SlotTable
from specguide.speculation.query import Query
from specguide.speculation.selection import Sampling, SamplingKind


class TokenChoice:
    """Reads the rows and the slots' sampling parameters."""

    def __init__(self, buffers: GuideBuffers, state: SlotTable) -> None:
        self._state = state
        self._bitmask, self._guided = buffers.bitmask.flatten(0, 1), buffers.guided.flatten()
        nodes = torch.arange(buffers.guided.shape[0], device=state.ids.device)
        self._row_ids = (
            nodes * len(state.ids) + state.ids[:, None]
        )  # [max_batch_size, K + 1], into all rows

    def choose(self, logits: Tensor, query: Query, sampling: Sampling) -> Tensor:
        """What the target says after every node, int32 [B, N]; -1 where nothing is allowed.

        logits: [B · N, vocab_size]
        """
        rows = self._rows(query)
        if sampling.kind >= SamplingKind.ADJUSTED:
            logits = adjust_logits(
                logits,
                self._state.ids[query.slots],
                self._paths(query),
                query.start,
                self._state.adjustments,
                self._bitmask,
                self._guided,
                rows,
            )
        if sampling.used.temperature is None:
            tokens = masked_argmax(logits, self._bitmask, self._guided, rows, None)
        else:
            slots = self._state.ids[query.slots].repeat_interleave(query.num_nodes)
            chosen = self._state.sampling.select(slots, sampling.used)
            positions = (query.start[:, None] + 1 + query.depths).flatten()
            tokens = masked_sample(logits, self._bitmask, self._guided, rows, chosen, positions)
        return tokens.view(-1, query.num_nodes)

    def _rows(self, query: Query) -> Tensor:
        """Which row says what may follow each node, int64 [B · N]."""
        if query.trees is None:
            return self._row_ids[query.slots, : query.num_nodes].flatten()
        return (
            query.trees.places * len(self._state.ids) + self._state.ids[query.slots][:, None]
        ).flatten()

    def _paths(self, query: Query) -> Tensor:
        """The drafts on the path to each node, int32 [B, N, D]."""
        if query.trees is None:
            return chain_paths(self._state.nodes.tokens[query.slots][:, 1 : query.num_nodes])
        return query.trees.paths(self._state.nodes.accepted_path.shape[1])
