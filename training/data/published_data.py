"""Owns what a draft head for a published model is trained on: the model's own answers, guided as
they will be when the head drafts, to prompts of the data sets and of the project's generators."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from specguide import LLM, SamplingParams
from specguide.bench.data_sets import load_tasks
from specguide.bench.tasks import Task
from specguide.bench.told import messages_of
from specguide.config import CacheConfig, GuideConfig
from specguide.errors import SpecguideError
from training.data import chat
from training.data.draft_data import Example
from training.data.tasks import sample_task

SETS = ("jsonschemabench", "bfcl")
"""Whose prompts are trained on. JSON Mode Eval is for measuring alone."""

HELD_OUT = 64
"""Tasks of each set that no head is trained on: those that `specguide bench acceptance` takes with
`--samples 64`, and for half of it the same."""


def generated_tasks(seed: int, count: int, split: str = "known") -> list[Task]:
    """Of the project's own generator: extraction with a schema, tools and short free text."""
    random = Random(f"published {split} {seed}")
    return [_task(f"{split}-{n}", sample_task(random, split, 1.0)) for n in range(count)]


def _task(name: str, made: chat.Task) -> Task:
    schema = None if made.schema is None else json.loads(made.schema)
    return Task(name, tuple(chat.messages_of(made)), schema, made.tools)


def set_tasks(data: Path | None) -> tuple[list[Task], list[Task]]:
    """Tasks of SETS to train on, and those held out. data: folder of the sets; None: none"""
    if data is None:
        return [], []
    trained, held = list[Task](), list[Task]()
    for name in SETS:
        out = load_tasks(name, data, HELD_OUT)
        names = {task.name for task in out}
        held += out
        trained += [task for task in load_tasks(name, data, 10**9) if task.name not in names]
    return trained, held


def answered(
    model: Path, tasks: Sequence[Task], max_len: int, max_answer_len: int, batch: int
) -> list[Example]:
    """The model's greedy answers, guided where a task has a schema. What is too long, or cannot be
    guided, is left out, and its number printed."""
    llm = LLM(
        model,
        spec=None,
        max_batch_size=batch,
        max_model_len=max_len,
        guide=GuideConfig(max_whitespace=0),
        cache=CacheConfig(gpu_memory_utilization=0.5),
    )
    try:
        asked = list(_prompts(llm, tasks, max_len - max_answer_len))
        params = [
            SamplingParams(
                max_tokens=max_answer_len, temperature=0.0, guide=task.guide, allow_truncation=True
            )
            for task, _ in asked
        ]
        outputs = llm.generate([prompt for _, prompt in asked], params)
    finally:
        llm.close()
    made = [
        Example(np.array([*prompt, *output.token_ids], np.int32), len(prompt))
        for (_, prompt), output in zip(asked, outputs, strict=True)
        if output.error is None and len(output.token_ids) > 2
    ]
    print(f"{len(made)} answers; {len(tasks) - len(made)} tasks were left out")
    return made


def _prompts(llm: Any, tasks: Sequence[Task], max_len: int) -> Iterator[tuple[Task, list[int]]]:
    for task in tasks:
        try:
            prompt = llm.tokenizer.apply_chat_template(
                messages_of(task, llm.tokenizer.chat_template),
                tools=task.tools or None,
                json_schema=task.schema,
            )
        except SpecguideError:
            continue
        if len(prompt) <= max_len:
            yield task, prompt
