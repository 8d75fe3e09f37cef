"""Owns the run of a task: from token ids to typed events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from specguide.engine import RequestDelta, RequestStream
from specguide.server.http.errors import ApiError
from specguide.server.http.tracing import note_generation
from specguide.server.running.sample_reader import SampleReader
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import Event
from specguide.server.tasks.task import Task


async def run(backend: Backend, task: Task, client: str = "") -> AsyncIterator[Event]:
    """The events of a task, available once each prompt has begun. Prompts run in parallel, but
    their events come one prompt after another.

    Raises ApiError for an error in the task, now or while the events are read. client: the client's
    name
    """
    streams = [
        backend.engine.generate(prompt, task.params, priority=task.priority, client=client)
        for prompt in task.prompts
    ]
    all_deltas = await _all_begun(streams, task)

    async def events() -> AsyncIterator[Event]:
        for number, deltas in enumerate(all_deltas):
            async for event in read(backend, task, number, deltas):
                yield event

    return events()


async def read(
    backend: Backend, task: Task, number: int, deltas: AsyncIterator[RequestDelta]
) -> AsyncIterator[Event]:
    """The events of one prompt. number: its index in the task"""
    first = number * task.params.n
    readers = [SampleReader(backend, task, first + index) for index in range(task.params.n)]
    async for delta in deltas:
        for event in readers[delta.index].read(delta):
            yield event


async def _all_begun(
    streams: Sequence[RequestStream], task: Task
) -> list[AsyncIterator[RequestDelta]]:
    """`begun` for each stream. Where one is refused, the others are not waited for, and end."""
    starts = [asyncio.ensure_future(begun(stream, task)) for stream in streams]
    try:
        return await asyncio.gather(*starts)
    finally:
        for start in starts:
            start.cancel()


async def begun(stream: RequestStream, task: Task) -> AsyncIterator[RequestDelta]:
    """A request's deltas, once there is a first one. Raises ApiError, now or later, which names the
    wrong field of the task."""
    first = await anext(stream)
    if first.error is not None:
        raise ApiError.of(first.error, task.param_of(first.error))
    # it never began, since the server is stopping
    if first.finish_reason == "abort" and not first.token_ids:
        raise ApiError.shutting_down()

    async def all_of_them() -> AsyncIterator[RequestDelta]:
        note_generation(first)
        yield first
        async for delta in stream:
            note_generation(delta)
            if delta.error is not None:
                raise ApiError.of(delta.error, task.param_of(delta.error))
            yield delta

    return all_of_them()
