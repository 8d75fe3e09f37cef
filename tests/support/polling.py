"""Engines whose callbacks are polled for."""

from __future__ import annotations

from specguide import GuideConfig, native

POLLING = GuideConfig(callbacks="polling", deadline_us=60_000_000)


def polling_stream(llm) -> native.PollingStream:
    return llm._engine._executor.grammar._streams.grammar
