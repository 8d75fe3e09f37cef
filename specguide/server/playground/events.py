"""Owns the events that the playground's page reads: one for the beginning, and one for each delta,
with all of its tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specguide.engine import RequestDelta
from specguide.request_records import Iteration
from specguide.server.playground.allowed import Allowed, AllowedWalk, Take, free
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.task import Task
from specguide.trace import Span

MAX_SPANS = 8000
"""Most spans of a timeline that are sent to the page."""
_LOGGER = logging.getLogger(__name__)


class Narrator:
    """Writes the events of one request. Times are milliseconds from the launch of its first
    iteration.

    It blocks during the grammar walk, for about 0.1 ms per token, so it must not run in an event
    loop's thread.
    """

    def __init__(self, backend: Backend, task: Task) -> None:
        self._backend, self._task = backend, task
        self._vocabulary = backend.tokenizer.vocabulary(backend.engine.vocab_size)
        self._take: Take | None = None
        self._origin_s: float | None = None
        self._end_s = 0.0
        self._num_tokens = self._num_gained = self._num_decoded = 0

    def start(self) -> dict[str, Any]:
        """The event before the first token."""
        engine = self._backend.engine
        return {
            "type": "start",
            "model": self._backend.config.model_name,
            "prompt_tokens": len(self._task.prompts[0]),
            "is_guided": self._task.params.guide is not None,
            "vocab_size": engine.vocab_size,
            "num_draft_tokens": engine.config.spec.num_draft_tokens if engine.config.spec else 0,
        }

    def delta(self, delta: RequestDelta) -> dict[str, Any]:
        """The event for a delta: its tokens, and the figures so far; the last one has the finish
        reason."""
        iterations = [self._iteration(iteration) for iteration in delta.iterations or ()]
        event = {
            "type": "delta",
            "text": delta.text,
            "iterations": iterations,
            "num_tokens": self._num_tokens,
            "num_iterations": self._num_decoded,
            "acceptance_length": self._num_gained / self._num_decoded if self._num_decoded else 0.0,
        }
        if delta.finish_reason is None:
            return event
        return {
            **event,
            "finish_reason": delta.finish_reason,
            "stop_reason": delta.stop_reason,
            "metrics": asdict(delta.metrics) if delta.metrics else None,
        }

    def spans(self, spans: Sequence[Span]) -> dict[str, Any]:
        """The spans of a traced engine within the request's time; only the last MAX_SPANS where
        there are more."""
        origin_s = self._origin_s or 0.0
        own = [
            span
            for span in spans
            if span.end_ns >= origin_s * 1e9 and span.begin_ns <= self._end_s * 1e9
        ]
        return {
            "type": "spans",
            "spans": [
                {
                    "track": span.track,
                    "name": span.name,
                    "begin_ms": span.begin_ns * 1e-6 - 1e3 * origin_s,
                    "end_ms": span.end_ns * 1e-6 - 1e3 * origin_s,
                }
                for span in sorted(own, key=lambda span: span.begin_ns)[-MAX_SPANS:]
            ],
        }

    def _iteration(self, iteration: Iteration) -> dict[str, Any]:
        times = iteration.times
        if self._origin_s is None:
            self._origin_s = times.begin_s
        self._end_s = times.end_s
        self._num_tokens += len(iteration.tokens)
        if not (iteration.is_prefill or iteration.is_held):
            self._num_decoded += 1
            self._num_gained += len(iteration.tokens)
        return {
            "is_prefill": iteration.is_prefill,
            "is_held": iteration.is_held,
            "drafts": [self._named(token) for token in iteration.drafts],
            "num_accepted": iteration.num_accepted,
            "tokens": [
                self._token(token, place < iteration.num_accepted)
                for place, token in enumerate(iteration.tokens)
            ],
            "begin_ms": 1e3 * (times.begin_s - self._origin_s),
            "end_ms": 1e3 * (times.end_s - self._origin_s),
            "wait_ms": 1e3 * times.wait_s,
            "grammar_ms": _ms(times.grammar_s),
            "grammar_exposed_ms": _ms(times.grammar_exposed_s),
        }

    def _token(self, token: int, is_accepted: bool) -> dict[str, Any]:
        allowed = self._allowed(token)
        event = {
            **self._named(token),
            "is_accepted": is_accepted,
            "is_forced": False,
            "allowed": None,
        }
        if allowed is None:
            return event
        return {
            **event,
            "is_forced": allowed.num_tokens == 1,
            "allowed": {
                "num_tokens": allowed.num_tokens,
                "is_text_forced": allowed.is_text_forced,
                "sample": [self._named(one) for one in allowed.sample],
            },
        }

    def _allowed(self, token: int) -> Allowed | None:
        """The allowed tokens. If the walk fails, it ends, but the output goes on: the engine
        enforces the grammar itself."""
        try:
            if self._take is None:  # the engine has compiled the grammar before the first token
                grammar = self._backend.engine.grammar_of(self._task.params)
                self._take = (
                    free
                    if grammar is None
                    else AllowedWalk(grammar.matcher(), self._vocabulary).take
                )
            return self._take(token)
        except Exception as error:
            _LOGGER.warning(
                "what the grammar allowed is not shown any more: %s", error, exc_info=error
            )
            self._take = free
            return None

    def _named(self, token: int) -> dict[str, Any]:
        """The token with its text; bytes that are not valid UTF-8 are written as \\x…"""
        text = self._vocabulary.token_bytes[token].decode("utf-8", "backslashreplace")
        return {
            "id": token,
            "text": text or self._backend.tokenizer.decode([token], skip_special_tokens=False),
        }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds
