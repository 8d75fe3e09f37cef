"""Owns what a soak puts an engine under: guided requests, other CUDA work, slow grammars."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from specguide import Guide, SamplingParams
from specguide.guided.backends import CompiledGrammar
from specguide.guided.matcher import Matcher, Row
from specguide.tokenizer import Tokenizer
from training.data import chat
from training.evaluate.fields import SAMPLERS, samples_of

SAMPLED_EVERY = 3
MAX_TOKENS = 1500


@dataclass(frozen=True, eq=False)
class Job:
    """A prompt and the schema that its output must match; `number` names it in a pool."""

    number: int
    prompt_ids: list[int]
    schema: str
    validator: Validator


def jobs(tokenizer: Tokenizer, num_each: int, seed: int) -> list[Job]:
    """Fresh tasks with schemas of every group, and lists of what they ask for."""
    tasks = [
        task for group in SAMPLERS for task in samples_of(group, seed, num_each) if task.schema
    ]
    lists = [
        chat.Task(task.text, answer="", schema=_list_of(task.schema, 5 + number % 8))
        for number, task in enumerate(tasks)
        if task.schema and "$ref" not in task.schema
    ]
    mixed = [*tasks[::6], *lists]
    random.Random(seed).shuffle(mixed)
    return [_job(tokenizer, number, task) for number, task in enumerate(mixed)]


def _list_of(schema: str, num_items: int) -> str:
    entries = {
        "type": "array",
        "items": json.loads(schema),
        "minItems": num_items,
        "maxItems": num_items + 2,
    }
    return json.dumps(
        {
            "type": "object",
            "properties": {"entries": entries},
            "required": ["entries"],
            "additionalProperties": False,
        }
    )


def _job(tokenizer: Tokenizer, number: int, task: chat.Task) -> Job:
    assert task.schema is not None
    schema = json.loads(task.schema)
    return Job(
        number,
        tokenizer.encode(chat.render_prompt(task), add_special_tokens=False),
        task.schema,
        validator_for(schema)(schema),
    )


def requests(pool: Sequence[Job]) -> Iterator[tuple[Job, SamplingParams]]:
    """The pool's jobs over and over; some are sampled, each time with another seed, the others
    greedy."""
    for number in count():
        job = pool[number % len(pool)]
        yield (
            job,
            params_of(job, temperature=0.8 if number % SAMPLED_EVERY == 0 else 0.0, seed=number),
        )


def params_of(job: Job, *, temperature: float = 0.0, seed: int = 0) -> SamplingParams:
    return SamplingParams(
        max_tokens=MAX_TOKENS,
        temperature=temperature,
        seed=seed,
        guide=Guide(json_schema=job.schema),
    )


@contextmanager
def launching(enabled: bool) -> Iterator[None]:
    """A thread with small products and allocations on a CUDA stream of its own. Raises what it
    raised."""
    stop = threading.Event()
    errors = []

    def launch() -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                matrix = torch.randn(256, 256, device="cuda")
                for turn in count():
                    if stop.is_set():
                        return
                    for size in (1 << 10, 1 << 16, (turn % 64 + 1) << 12):
                        torch.empty(size, device="cuda").fill_(turn)
                    matrix = (matrix @ matrix).clamp(-1, 1)
                    stream.synchronize()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=launch, name="launcher", daemon=True)
    if enabled:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if enabled:
            thread.join()
    if errors:
        raise errors[0]


class StallingGrammar:
    """A compiled grammar whose matchers go through Python, and sleep in every so-manieth fill."""

    def __init__(self, grammar: CompiledGrammar, sleep_s: float, every: int) -> None:
        self._grammar, self._sleep_s, self._every = grammar, sleep_s, every

    def matcher(self) -> Matcher:
        """At the grammar's beginning."""
        return StallingMatcher(self._grammar.matcher(), self._sleep_s, self._every)


class StallingMatcher:
    """Follows the matcher contract by another matcher. sleep_s: 0 never sleeps"""

    def __init__(self, matcher: Matcher, sleep_s: float, every: int) -> None:
        self._matcher, self._sleep_s, self._every = matcher, sleep_s, every
        self._num_fills = 0

    def accept(self, token: int) -> bool:
        return self._matcher.accept(token)

    def fill(self, row: Row) -> None:
        self._num_fills += 1
        if self._sleep_s and self._num_fills % self._every == 0:
            time.sleep(self._sleep_s)  # without the GIL
        self._matcher.fill(row)

    def rollback(self, n: int) -> None:
        self._matcher.rollback(n)

    @property
    def is_terminated(self) -> bool:
        return self._matcher.is_terminated

    def forced_tokens(self) -> Any:
        return self._matcher.forced_tokens()
