"""Engines whose callbacks are polled for."""

from __future__ import annotations

from specguide import GuideConfig, native
from specguide.guided.grammar_stream.streams import PolledCallbacks

POLLING = GuideConfig(callbacks="polling", deadline_us=60_000_000)


def polling_stream(llm) -> native.PollingStream:
    streams = llm._engine._executor.grammar._streams
    return streams.polling if isinstance(streams, PolledCallbacks) else streams.grammar
