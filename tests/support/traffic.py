"""Owns random traffic for an engine on the tiny model: requests of every kind, when each comes,
compiles and goes.

Time is counted in turns of the serving loop, deadlines and compiles included, so that a run can be
repeated.
"""

from __future__ import annotations

import random
import string
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from random_requests import random_schema
from user_matchers import Alternating

from specguide import Guide, Reasoning, SamplingParams
from specguide.engine import Engine
from specguide.guided.grammar_future import GrammarFuture
from specguide.request import Request

_Options = dict[str, Callable[[random.Random], Any]]

TURN_S = 0.001
MOST_TURNS = 5000
MAX_MODEL_LEN = 100

MATCHERS: weakref.WeakSet[Any] = weakref.WeakSet()
"""The matchers written in Python that still exist."""


@dataclass(frozen=True)
class Job:
    """The samples of a prompt. arrival: turn in which they come; cancel: turns after the arrival
    until they are cancelled; compile: turns that the compile of their grammar takes"""

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    priority: int
    arrival: int
    compile: int
    cancel: int | None


class Watched(Alternating):
    """A matcher that is listed in MATCHERS as long as it exists."""

    def __init__(self) -> None:
        super().__init__()
        MATCHERS.add(self)


class Failing(Watched):
    """Allows every byte, and fails behind `at` tokens."""

    def __init__(self, how: str, at: int) -> None:
        super().__init__()
        self._how, self._at = how, at

    def accept(self, token: int) -> bool:
        if len(self.taken) >= self._at and self._how != "fill":
            if self._how == "accept":
                raise KeyError("out of ideas")
            return False
        self.taken.append(token)
        return True

    def fill(self, row: np.ndarray) -> None:
        if len(self.taken) >= self._at and self._how == "fill":
            raise KeyError("out of ideas")
        row[:] = 0
        row[:8] = 0 if self._how == "dead end" and len(self.taken) >= self._at else -1


class Sleepy(Watched):
    """A matcher that is late now and then."""

    def fill(self, row: np.ndarray) -> None:
        if len(self.taken) % 3 == 1:
            time.sleep(0.004)
        super().fill(row)


class Late(Sleepy):
    """A matcher that always allows several tokens, so that adjusted logits never forbid all."""

    def allowed(self) -> list[int]:
        return [] if self.is_terminated else [*range(64, 90)]


GUIDES = [
    Guide(choice=["true", "truer", "tab"]),
    Guide(regex='[a-c"]{2,20}'),
    Guide(regex="(ab){2,3}"),
    Guide(regex="é{1,9}"),
    Guide(grammar='root ::= "a" [0-9] [0-9] root | "b"'),
    Guide(grammar='start: "x" /[0-9]+/ "y"'),
    Guide(json_schema={"enum": ["red", 1, None]}, backend="xgrammar"),
    Guide(json_object=True),
    Guide(regex="("),
    Guide(json_schema={"type": "integer", "minimum": "x"}),
    Guide(matcher=Watched),
    Guide(matcher=Sleepy),
]
BEGINNINGS = [
    b"",
    b"abc {}:\n",
    b"a prompt of many words ",
    b"a prompt of many words, which others begin with too ",
]

_SAMPLING: _Options = dict(
    temperature=lambda rng: rng.choice([0.8, 1.5]),
    top_k=lambda rng: rng.choice([1, 20]),
    top_p=lambda rng: rng.choice([0.5, 0.95]),
    min_p=lambda rng: rng.choice([0.02, 0.3]),
    logprobs=lambda rng: rng.randint(0, 3),
    n=lambda rng: rng.randint(1, 3),
)
_ADJUSTMENTS: _Options = dict(
    repetition_penalty=lambda rng: rng.choice([0.6, 1.5]),
    presence_penalty=lambda rng: rng.uniform(-2, 2),
    frequency_penalty=lambda rng: rng.uniform(-2, 2),
    min_tokens=lambda rng: rng.randint(0, 12),
    logit_bias=lambda rng: {rng.randrange(272): rng.uniform(-9, 9) for _ in range(40)},
    bad_words=lambda rng: [_text(rng, 'abtrue"1', 3) for _ in range(3)],
    allowed_token_ids=lambda rng: rng.sample(range(272), rng.choice([2, 30, 200])),
)
_ENDS: _Options = dict(
    ignore_eos=lambda rng: True,
    include_stop_str_in_output=lambda rng: True,
    stop_token_ids=lambda rng: [*rng.sample(range(272), 20), 2**40],
    stop=lambda rng: [
        _text(rng, string.printable + "\ufffd", rng.choice([1, 1, 2])) for _ in range(25)
    ],
)


def _text(rng: random.Random, alphabet: str, most: int) -> str:
    return "".join(rng.choices(alphabet, k=rng.randint(1, most)))


def _some(rng: random.Random, options: _Options) -> dict[str, Any]:
    return {name: make(rng) for name, make in options.items() if rng.random() < 0.3}


def _guided(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.2:
        at, how = rng.randint(1, 9), rng.choice(["fill", "accept", "refuse", "dead end"])
        num_more = (
            rng.choice([0, 8]) if how == "dead end" else 8
        )  # the others fail drafts that go too far
        return dict(guide=Guide(matcher=partial(Failing, how, at)), max_tokens=at + num_more)
    guide = rng.choice(GUIDES) if rng.random() < 0.7 else Guide(json_schema=random_schema(rng))
    reasoning = Reasoning(
        rng.choice(["zz", "</t>"]), rng.choice([None, "<"]), rng.choice([None, 0, 3])
    )
    return dict(guide=guide, reasoning=reasoning if rng.random() < 0.3 else None)


def _params(rng: random.Random, timeout: int | None) -> SamplingParams:
    given = dict(seed=rng.randrange(99), max_tokens=rng.choice([1, 2, 9, 40, 60]))
    given |= _some(rng, _SAMPLING) | (_some(rng, _ENDS) if rng.random() < 0.4 else _guided(rng))
    if rng.random() < 0.3:
        given |= _some(rng, _ADJUSTMENTS)
    if timeout is not None:
        given |= dict(timeout_s=timeout * TURN_S)
    return SamplingParams(
        **{**given, "min_tokens": min(given.get("min_tokens", 0), given["max_tokens"])}
    )


def random_job(seed: int) -> Job:
    """A random job."""
    rng = random.Random(seed)
    prompt = rng.choice(BEGINNINGS) + rng.randbytes(rng.choice([1, 9, 30]))
    if rng.random() < 0.05:
        prompt = rng.randbytes(rng.randint(MAX_MODEL_LEN - 9, MAX_MODEL_LEN))
    turn = rng.choice([rng.randint(1, 8), rng.randint(1, 60)])
    cancel, timeout = rng.choice(
        [(None, None)] * 8 + [(turn, None), (turn, None), (None, turn), (turn, turn)]
    )
    return Job(
        tuple(prompt),
        _params(rng, timeout),
        priority=rng.randint(-1, 1),
        arrival=rng.randint(0, 12),
        compile=rng.choice([0, 0, 1, 7]),
        cancel=cancel,
    )


class _Clock:
    """Replaces the module `time`; its time is counted in turns."""

    def __init__(self) -> None:
        self.turn = 0
        self._start_s = time.perf_counter()

    def perf_counter(self) -> float:
        return self._start_s + self.turn * TURN_S


class _SlowCompiler:
    """Delays an engine's compiler: a grammar is ready `num_turns` after its request."""

    def __init__(self, engine: Engine, clock: _Clock) -> None:
        self._submit = engine._admission.compiler.submit
        self._clock = clock
        self.num_turns = 0
        self._pending: list[tuple[int, Future[Any], Future[Any]]] = []
        engine._admission.compiler.submit = self.submit

    def submit(self, guide: Guide, room: int | None) -> Future[Any]:
        compiled = self._submit(guide, room)
        wait([compiled])
        if not self.num_turns:
            return compiled
        future = GrammarFuture()
        self._pending.append((self._clock.turn + self.num_turns, compiled, future))
        return future

    def release(self) -> None:
        """Hand out the grammars that are due in this turn."""
        for due, compiled, future in self._pending:
            if due == self._clock.turn and future.set_running_or_notify_cancel():
                if compiled.exception() is None:
                    future.set_result(compiled.result())
                else:
                    future.set_exception(compiled.exception())


def serve(engine: Engine, jobs: Sequence[Job]) -> list[list[Request]]:
    """Run the jobs to their end; returns their samples. Checks that each comes back exactly once,
    and that nothing is lost meanwhile."""
    clock = _Clock()
    samples = [[] for _ in jobs]
    finished = []
    compiler, last_turn = (
        _SlowCompiler(engine, clock),
        max(job.arrival + (job.cancel or 0) for job in jobs),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specguide.engine.requests.deadlines.time", clock)
        while clock.turn <= last_turn or engine.num_unfinished or engine.idle_s() == 0:
            compiler.release()
            for job, requests in zip(jobs, samples, strict=True):
                if clock.turn == job.arrival:
                    compiler.num_turns = job.compile
                    requests += [
                        engine.add(
                            job.prompt_ids,
                            job.params,
                            priority=job.priority,
                            sample=sample,
                            arrival_s=clock.perf_counter(),
                        )
                        for sample in range(job.params.n)
                    ]
                if job.cancel is not None and clock.turn == job.arrival + job.cancel:
                    for request in requests:
                        engine.cancel(request)
            if engine.idle_s() == 0:
                finished += engine.step()
            engine.check_integrity()
            clock.turn += 1
            assert clock.turn < MOST_TURNS, "somebody waits for ever"
    assert sorted(one.request_id for one in finished) == sorted(
        one.request_id for each in samples for one in each
    )
    return samples
