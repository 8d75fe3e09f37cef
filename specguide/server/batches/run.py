"""Owns a batch's run: the engine's process, and the requests that are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO

import httpx
import msgspec
import uvloop

from specguide.engine.serving.remote_engine import RemoteEngine
from specguide.engine.setup.target_folder import load_tokenizer
from specguide.server.app import APIS, create_app
from specguide.server.batches.lines import (
    BatchAnswer,
    BatchRequest,
    UnreadableLine,
    answered,
    failed,
    request_of,
)
from specguide.server.http.request_ids import REQUEST_ID
from specguide.server.processes.core_process import CoreProcess
from specguide.server.processes.plans import ServicePlan

_AT_ONCE = 2
"""Requests under way per slot of the engine, so that no slot waits for a request."""
_NO_LIMIT = 1 << 31
_URLS = tuple(api.path for api in APIS)
_ANYWHERE = "http://batch"
"""Host of the requests; they need one, though nothing connects to it."""


@dataclass
class BatchCounts:
    """Lines so far.

    num_answered: lines that were answered successfully
    num_refused:  lines that were answered with an error, or are not a request
    """

    num_answered: int = 0
    num_refused: int = 0

    def take(self, is_right: bool) -> None:
        """Count a line."""
        self.num_answered += is_right
        self.num_refused += not is_right


def run_batch(
    plan: ServicePlan,
    requests: BinaryIO,
    answers: BinaryIO,
    *,
    tell: Callable[[str], None],
    done: Callable[[], object],
) -> BatchCounts:
    """Answer each line of a file; answers are written in the order in which they come.

    requests, answers: lines as `lines` defines them; each answer is written at once
    tell: called with messages for the operator
    done: called after each answer

    Raises the error that keeps the engine from starting, and EngineError where its process ends
    before all lines are answered: lines under way then get that error as their answer, and no more
    lines are read.
    """
    server = replace(plan.server, max_waiting=_NO_LIMIT)
    batch = _Batch(requests, answers, done)
    return uvloop.run(batch.run(replace(plan, server=server), tell))


class _Batch:
    """Lines on their way through the application. requests, answers, done: see `run_batch`"""

    def __init__(self, requests: BinaryIO, answers: BinaryIO, done: Callable[[], object]) -> None:
        self._requests, self._answers, self._done = requests, answers, done
        self._counts = BatchCounts()
        self._custom_ids = set[str]()
        self._num_lines = 0

    async def run(self, plan: ServicePlan, tell: Callable[[str], None]) -> BatchCounts:
        """See `run_batch`."""
        core = CoreProcess(plan)
        try:
            facts = await core.ready(lambda end: engine.disconnect(end))
            tell(facts.cache_size)
            engine = RemoteEngine(facts, load_tokenizer(facts.config), "batch")
            engine.connect(core.address)
            app = httpx.ASGITransport(create_app(engine, plan.server), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=app, base_url=_ANYWHERE, timeout=None) as client:
                await self._answer_all(engine, client)
            engine.health.check()
            await engine.close()
        except* OSError as errors:  # an answer cannot be written
            raise errors.exceptions[0] from None
        finally:
            await core.stop()
        return self._counts

    async def _answer_all(self, engine: RemoteEngine, client: httpx.AsyncClient) -> None:
        room = asyncio.Semaphore(_AT_ONCE * engine.config.max_batch_size)
        async with asyncio.TaskGroup() as tasks:
            while engine.health.is_healthy and (line := await self._next_line()):
                await room.acquire()
                task = tasks.create_task(self._answer(client, self._num_lines, line))
                task.add_done_callback(lambda _: room.release())

    async def _next_line(self) -> bytes:
        """The next line that is not blank; empty at the file's end."""
        line = b" "
        while line.isspace():
            line = await asyncio.to_thread(self._requests.readline)
            self._num_lines += 1
        return line

    async def _answer(self, client: httpx.AsyncClient, number: int, line: bytes) -> None:
        try:
            request = self._request(line)
        except UnreadableLine as error:
            self._write(failed(error, number), is_right=False)
            return
        headers = {"content-type": "application/json"}
        response = await client.post(request.url, content=bytes(request.body), headers=headers)
        request_id, body = response.headers[REQUEST_ID], msgspec.Raw(response.content)
        answer = BatchAnswer(response.status_code, request_id, body)
        self._write(answered(request.custom_id, answer), is_right=response.is_success)

    def _request(self, line: bytes) -> BatchRequest:
        request = request_of(line)
        if request.url not in _URLS:
            message = f"url must be {' or '.join(_URLS)}, found {request.url!r}"
            raise UnreadableLine(message, request.custom_id)
        if request.custom_id in self._custom_ids:
            raise UnreadableLine(
                "an earlier line has the same custom_id; give each line its own", request.custom_id
            )
        self._custom_ids.add(request.custom_id)
        return request

    def _write(self, line: bytes, *, is_right: bool) -> None:
        self._answers.write(line)
        self._answers.flush()
        self._counts.take(is_right)
        self._done()
