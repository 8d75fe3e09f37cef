"""Owns what engines under load are asked: fresh tasks of the shipped model, guided by schemas."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from benchmarks.guides.tasks import fresh_tasks, prompt_of
from specguide import Guide, SamplingParams
from specguide.tokenizer import Tokenizer
from training.data import chat

SAMPLED_EVERY = 3
MAX_TOKENS = 1500
_ENTRIES = "entries"


@dataclass(frozen=True, eq=False)
class Job:
    """A prompt and the schema that its output must match; `number` names it in a pool."""

    number: int
    prompt_ids: list[int]
    schema: str
    validator: Validator


def jobs(tokenizer: Tokenizer, num_each: int, seed: int) -> list[Job]:
    """Fresh tasks with schemas of every group, and lists of what they ask for."""
    tasks = [task for task in fresh_tasks(num_each, seed) if task.schema]
    lists = [
        chat.Task(task.text, answer="", schema=_list_of(task.schema, 5 + number % 8))
        for number, task in enumerate(tasks)
        if task.schema and "$ref" not in task.schema
    ]
    mixed = [*tasks[::6], *lists]
    random.Random(seed).shuffle(mixed)
    return [_job(tokenizer, number, task) for number, task in enumerate(mixed)]


def lists(tokenizer: Tokenizer, num_each: int, seed: int) -> list[Job]:
    """Of these jobs those whose outputs are lists, which are long."""
    return [job for job in jobs(tokenizer, num_each, seed) if f'"{_ENTRIES}"' in job.schema]


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
            "properties": {_ENTRIES: entries},
            "required": [_ENTRIES],
            "additionalProperties": False,
        }
    )


def _job(tokenizer: Tokenizer, number: int, task: chat.Task) -> Job:
    assert task.schema is not None
    schema = json.loads(task.schema)
    return Job(
        number,
        prompt_of(task, tokenizer),
        task.schema,
        validator_for(schema)(schema),
    )


def requests(pool: Sequence[Job]) -> Iterator[tuple[Job, SamplingParams]]:
    """The pool's jobs over and over; some are sampled, each time with another seed, the others
    greedy."""
    for number in count():
        job = pool[number % len(pool)]
        temperature = 0.8 if number % SAMPLED_EVERY == 0 else 0.0
        yield job, params_of(job, temperature=temperature, seed=number)


def params_of(job: Job, *, temperature: float = 0.0, seed: int = 0) -> SamplingParams:
    return SamplingParams(
        max_tokens=MAX_TOKENS,
        temperature=temperature,
        seed=seed,
        guide=Guide(json_schema=job.schema),
    )
