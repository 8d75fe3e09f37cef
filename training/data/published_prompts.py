"""Owns what a published model is asked for the training of its draft head: prompts of the project's
own generators in many wordings, and places where the model writes the user's turn itself. No data
set is read: all of them are left for measuring."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from specguide.bench.tasks import Task
from training.data import chat
from training.data.answer_style import is_json
from training.data.tasks import sample_task
from training.data.tools import call_schema

TURN = "[a turn of its own]"
"""Stands in a prompt where the model is to write what the user says, as in Magpie (arXiv
2406.08464)."""

_SYSTEMS = (
    "You are a helpful assistant that answers in JSON. Here's the json schema you must adhere "
    "to:\n<schema>\n{}\n</schema>\n",
    "You are a helpful assistant that answers in JSON. Use this schema:\n{}",
    "Reply with one JSON object and nothing else. Its schema: {}",
    "Extract what the user tells you as JSON. The schema is\n\n{}",
)
_INSTANCE = (
    "Write a JSON instance of the schema.",
    "Make up an example of the schema.",
    "Give me a JSON object that matches the schema.",
)
_REQUESTS = (
    "Write this as JSON of the schema: {}",
    "Turn this into JSON that matches the schema: {}",
)
_CHAT_SYSTEMS = ("", "", "You are a helpful assistant.", "Answer briefly.")
_FREE_SHARE = 0.25
_UNGUIDED_SHARE = 0.1
_SAMPLED_SHARE = 0.3
_OPEN_SHARE = 0.2


@dataclass(frozen=True)
class Asked:
    """One prompt.

    task:        its messages hold TURN where the model is to write the user's turn
    is_guided:   whether the answer is held to the task's schema
    temperature: of the answer; 0 is greedy
    seed:        of what is sampled
    """

    task: Task
    is_guided: bool
    temperature: float
    seed: int


def prompts(seed: int, count: int, split: str = "known") -> Iterator[Asked]:
    """split: of the generators. Of "left_out" all is answered greedily."""
    random = Random(f"published {split} {seed}")
    for number in range(count):
        task = _task(random, split)
        is_sampled = random.random() < _SAMPLED_SHARE and split == "known"
        yield Asked(
            replace(task, name=f"{split}-{number}", is_closed=random.random() >= _OPEN_SHARE),
            task.schema is not None and random.random() >= _UNGUIDED_SHARE,
            random.choice((0.6, 1.0)) if is_sampled else 0.0,
            random.getrandbits(31),
        )


def _task(r: Random, split: str) -> Task:
    if r.random() < _FREE_SHARE:
        return _conversation(r.choice(_CHAT_SYSTEMS), TURN)
    made = sample_task(r, split, 1.0)
    if made.tools:
        return _call(r, made)
    if made.schema is None:
        return _conversation(made.system, made.text)
    return _of_schema(r, made, json.loads(made.schema))


def _conversation(system: str, text: str, schema: Any = None, tools: Any = ()) -> Task:
    said = [{"role": "system", "content": system}] if system else []
    return Task("", (*said, {"role": "user", "content": text}), schema, tools)


def _call(r: Random, made: chat.Task) -> Task:
    """One call of the tools as JSON; half of the requests are the model's own."""
    schemas = [call_schema(tool["function"]) for tool in made.tools]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return _conversation("", TURN if r.random() < 0.5 else made.text, schema, made.tools)


def _of_schema(r: Random, made: chat.Task, schema: Any) -> Task:
    """Shown by a system message of its own in half of them, else as benchmarks show it."""
    dumped = r.choice(_DUMPS)(schema)
    system = r.choice(_SYSTEMS).format(dumped) if r.random() < 0.5 else ""
    return _conversation(system, _text(r, made), schema)


_DUMPS: tuple[Callable[[Any], str], ...] = (json.dumps, str)


def _text(r: Random, made: chat.Task) -> str:
    roll = r.random()
    if roll < 0.4:
        return TURN
    if roll < 0.5:
        return r.choice(_INSTANCE)
    if roll < 0.65 and is_json(made.answer):
        return r.choice(_REQUESTS).format(made.answer)
    return made.text
