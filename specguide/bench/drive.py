"""Owns the clients of a load: when requests are sent, how many at once, and how long each may
take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from random import Random
from typing import Protocol

import httpx

from specguide.bench.answer import Answer
from specguide.bench.config import Load
from specguide.bench.workload import LoadRequest

_PAUSE_S = 0.5


class Requests(Protocol):
    """A source of requests."""

    def request(self, number: int) -> LoadRequest:
        """The request with this number; it is always the same for a number."""


class Arrivals:
    """Numbers requests and says when each is due; clients take one after another.

    numbers: numbers of the requests, ascending
    """

    def __init__(self, load: Load, numbers: Iterator[int]) -> None:
        self._load = load
        self._rng = Random(load.seed)
        self._turn = asyncio.Lock()
        self._numbers = numbers
        self._num_sent = 0
        self._due_s = time.perf_counter()
        self._end_s = self._due_s + load.seconds

    async def next(self) -> tuple[int, float] | None:
        """A number and when it was due, as soon as it is due; None if there are no more.

        If all clients are busy a request is taken late, and its waiting time counts as latency.
        """
        async with self._turn:
            if self._load.rate is None:
                self._due_s = time.perf_counter()
            else:
                self._due_s += self._rng.expovariate(self._load.rate)
            is_over = (
                self._due_s >= self._end_s
                if self._load.num_requests is None
                else self._num_sent >= self._load.num_requests
            )
            if is_over:
                return None
            await asyncio.sleep(max(0.0, self._due_s - time.perf_counter()))
            self._num_sent += 1
            return next(self._numbers), self._due_s


async def drive(
    client: httpx.AsyncClient,
    requests: Requests,
    load: Load,
    numbers: Iterator[int],
    ended: Callable[[Answer], None],
) -> list[Answer]:
    """Send requests and return all answers in the order of their numbers. Answers are not checked
    meanwhile.

    numbers: numbers of the requests, ascending
    ended:   called with each answer when it ends
    """
    arrivals, answers = Arrivals(load, numbers), list[Answer]()

    async def one_client() -> None:
        while (turn := await arrivals.next()) is not None:
            number, due_s = turn
            answer = Answer(requests.request(number), due_s)
            answers.append(answer)
            await _ask(client, answer, load.timeout_s)
            ended(answer)
            if answer.failure is not None:
                await asyncio.sleep(_PAUSE_S)  # do not call a server that refuses in a tight loop

    await asyncio.gather(*(one_client() for _ in range(load.concurrency)))
    return sorted(answers, key=lambda answer: answer.request.number)


async def _ask(client: httpx.AsyncClient, answer: Answer, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(_stream(client, answer), timeout_s)
    except TimeoutError:
        answer.failure = (
            "timeout",
            f"no end after {timeout_s:g} s, {len(answer.arrivals_s)} chunks",
        )
    except httpx.HTTPError as error:
        answer.failure = (type(error).__name__, str(error))
    answer.end_s = time.perf_counter()


async def _stream(client: httpx.AsyncClient, answer: Answer) -> None:
    async with client.stream("POST", answer.request.path, json=answer.request.body) as response:
        answer.status = response.status_code
        if response.status_code != 200:
            answer.failure = (
                f"HTTP {response.status_code}",
                (await response.aread()).decode(errors="replace")[:500],
            )
            return
        async for line in _lines(response.aiter_bytes()):
            answer.take(line, time.perf_counter())


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines of an event stream, which end with line feeds alone. httpx would also end them at
    U+0085, U+2028 and U+2029, which stand unescaped in JSON."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    yield rest.decode(errors="replace")
