"""Owns the compiled grammars of requests under way, and the snapshot of each batch for the grammar
stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from specguide.batch import Batch, GuideSnapshot, WalkStart
from specguide.drafts.layout import DraftLayout
from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import FailedMatcher, Matcher
from specguide.request import Request


class _Walk(NamedTuple):
    grammar: CompiledGrammar | None
    layout: DraftLayout | None


class Walks:
    """Knows which requests' grammars start with a batch, and which go on."""

    def __init__(self) -> None:
        self._walks: dict[int, _Walk] = {}

    def add(
        self, request: Request, grammar: CompiledGrammar | None, layout: DraftLayout | None
    ) -> None:
        """Add a request that may run from now on.

        grammar: the grammar of its output; None for a free request
        layout:  the drafts that it takes; None: all
        """
        self._walks[request.request_id] = _Walk(grammar, layout)

    def discard(self, request: Request) -> None:
        """Forget the walk of a request that has ended."""
        self._walks.pop(request.request_id, None)

    def snapshot(self, batch: Batch, requests: Sequence[Request]) -> GuideSnapshot:
        """The snapshot for a batch of these requests.

        A walk starts with the last chunk of its request's prompt. If that is computed again because
        its first row was late, the walk goes on. Where a prompt was computed in mixed iterations,
        the walk starts with the first iteration in which its request decodes.
        """
        layout = batch.levels and batch.levels.drafted
        if not batch.is_prefill:
            return self._decoding(batch, requests, layout)
        started, continued = [], []
        for slot, chunk, request in zip(batch.slots, batch.chunks, requests, strict=True):
            if chunk.next_id is None and chunk.starts_walk:
                started.append(self._start(slot, request))
            elif chunk.next_id is None:
                continued.append(slot)
        return GuideSnapshot(tuple(started), tuple(continued), layout)

    def _decoding(
        self, batch: Batch, requests: Sequence[Request], layout: DraftLayout | None
    ) -> GuideSnapshot:
        rows = [start.row for start in batch.starts if start.starts_walk]
        started = [self._start(batch.slots[row], requests[row]) for row in rows]
        continued = [slot for row, slot in enumerate(batch.slots) if row not in rows]
        return GuideSnapshot(tuple(started), tuple(continued), layout)

    def _start(self, slot: int, request: Request) -> WalkStart:
        walk = self._walks[request.request_id]
        token_ids = [*request.prompt_ids, *request.output_ids]
        if walk.grammar is None:
            return WalkStart(slot, None, token_ids, walk.layout)
        output_ids = tuple(request.output_ids)
        matcher = matcher_behind(walk.grammar, output_ids)
        restart = partial(_restarted, walk.grammar, output_ids)
        return WalkStart(slot, matcher, token_ids, walk.layout, restart)


def matcher_behind(grammar: CompiledGrammar, output_ids: Sequence[int]) -> Matcher:
    """A new matcher that has accepted a request's output so far, for a request that was preempted.
    Where that is impossible, a matcher that always fails."""
    try:
        return _restarted(grammar, output_ids, ())
    except Exception as error:  # of a library, or of a user's matcher
        return FailedMatcher(error)


def _restarted(
    grammar: CompiledGrammar, output_ids: Sequence[int], further: Sequence[int]
) -> Matcher:
    """A new matcher that has accepted an output and further tokens. Raises ValueError where it
    refuses one."""
    matcher = grammar.matcher()
    refused = next((t for t in (*output_ids, *further) if not matcher.accept(t)), None)
    if refused is not None:
        raise ValueError(
            f"a new matcher refuses token {refused} of the output, which an earlier one accepted"
        )
    return matcher
