"""The asyncio engine on the tiny model, and what its streams give."""

from __future__ import annotations

import asyncio
import time

from tiny_engine import K

from specguide import SamplingParams, SpecConfig
from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine

ENDLESS = SamplingParams(max_tokens=480, ignore_eos=True)


def start(folders, lag: int = 0, max_batch_size: int = 4, **options) -> AsyncEngine:
    target, head = folders
    return AsyncEngine(
        Engine(
            EngineConfig(
                model=target,
                spec=SpecConfig(model=head, num_draft_tokens=K),
                max_batch_size=max_batch_size,
                lag=lag,
            )
        ),
        **options,
    )


async def collect(stream, pause_s: float = 0.0):
    """Text, tokens and last delta of each sample."""
    texts, tokens, last = {}, {}, {}
    async for delta in stream:
        assert delta.index not in last
        texts[delta.index] = texts.get(delta.index, "") + delta.text
        tokens[delta.index] = tokens.get(delta.index, ()) + delta.token_ids
        if delta.finish_reason is not None:
            last[delta.index] = delta
        await asyncio.sleep(pause_s)
    return [(texts[index], tokens[index], last[index]) for index in sorted(last)]


async def until(condition, timeout_s: float = 10.0):
    end = time.perf_counter() + timeout_s
    while not condition():
        assert time.perf_counter() < end
        await asyncio.sleep(0.005)
