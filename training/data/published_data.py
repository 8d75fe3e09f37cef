"""Owns what a draft head for a published model is trained on: the model's own answers to
`published_prompts`, guided as they will be when the head drafts, or free."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from specguide import LLM, SamplingParams
from specguide.bench.prompts import messages_of
from specguide.config import CacheConfig, GuideConfig
from specguide.errors import SpecguideError
from training.data.draft_data import Example
from training.data.published_prompts import TURN, Asked

_TURN_LEN = 160
_CHUNK = 4  # batches that are asked together: the longest answers are waited for once a chunk


@dataclass(frozen=True)
class Sizes:
    """prompt, answer: most tokens; batch: answered at once by each of `processes`"""

    prompt: int
    answer: int
    batch: int
    processes: int


Prompts = Callable[[], Iterator[Asked]]
"""Called in each process, which takes every n-th of them."""


def answered(
    model: Path, groups: Sequence[Prompts], sizes: Sizes, until: float
) -> list[list[Example]]:
    """The model's answers to each group, one group after another, as many as are there at the
    monotonic time `until`. What is too long, cannot be guided, or is an empty turn, is left out,
    and its number printed."""
    one = partial(_share, model, groups, sizes, until)
    if sizes.processes == 1:
        return one(0)
    with ProcessPoolExecutor(sizes.processes, get_context("spawn")) as pool:
        shares = list(pool.map(one, range(sizes.processes)))
    return [list(chain.from_iterable(parts)) for parts in zip(*shares, strict=True)]


def _share(
    model: Path, groups: Sequence[Prompts], sizes: Sizes, until: float, index: int
) -> list[list[Example]]:
    """The answers of one of the processes, for each group of prompts."""
    llm = LLM(
        model,
        spec=None,
        max_batch_size=sizes.batch,
        max_model_len=sizes.prompt + sizes.answer,
        max_prefill_tokens=8192,
        guide=GuideConfig(max_whitespace=0),
        cache=CacheConfig(gpu_memory_utilization=0.6 / sizes.processes),
    )
    try:
        return [
            _until(llm, islice(asked(), index, None, sizes.processes), sizes, until)
            for asked in groups
        ]
    finally:
        llm.close()


def _until(llm: Any, source: Iterator[Asked], sizes: Sizes, until: float) -> list[Example]:
    found = list[Example]()
    num_asked = 0
    with tqdm(desc="answers", unit="answer") as bar:
        while time.monotonic() < until and (chunk := list(islice(source, _CHUNK * sizes.batch))):
            made = _answers(llm, _with_turns(llm, chunk), sizes)
            found, num_asked = found + made, num_asked + len(chunk)
            bar.update(len(made))
    print(f"{len(found)} answers; {num_asked - len(found)} prompts were left out")
    return found


def _with_turns(llm: Any, chunk: Sequence[Asked]) -> list[Asked]:
    """The prompts, with what the model says in the place of TURN."""
    beginnings = {place: _before_turn(llm, one) for place, one in enumerate(chunk) if _wants(one)}
    params = [
        SamplingParams(max_tokens=_TURN_LEN, temperature=1.0, seed=chunk[place].seed)
        for place in beginnings
    ]
    outputs = llm.generate(list(beginnings.values()), params) if beginnings else []
    turns = {
        place: output.text.strip()
        for place, output in zip(beginnings, outputs, strict=True)
        if output.error is None
    }
    return [
        _said(one, turns[place]) if _wants(one) else one
        for place, one in enumerate(chunk)
        if not _wants(one) or turns.get(place)
    ]


def _wants(one: Asked) -> bool:
    return one.task.messages[-1]["content"] == TURN


def _before_turn(llm: Any, one: Asked) -> str:
    """The prompt up to the turn; special tokens are spelt out."""
    text: str = llm.tokenizer.decode(_prompt(llm, one), skip_special_tokens=False)
    return text[: text.rindex(TURN)]


def _said(one: Asked, turn: str) -> Asked:
    messages = (*one.task.messages[:-1], {"role": "user", "content": turn})
    return replace(one, task=replace(one.task, messages=messages))


def _answers(llm: Any, chunk: Sequence[Asked], sizes: Sizes) -> list[Example]:
    fitting = list(_fitting(llm, chunk, sizes.prompt))
    params = [
        SamplingParams(
            max_tokens=sizes.answer,
            temperature=one.temperature,
            seed=one.seed,
            guide=one.task.guide if one.is_guided else None,
            allow_truncation=True,
        )
        for one, _ in fitting
    ]
    outputs = llm.generate([prompt for _, prompt in fitting], params)
    return [
        Example(np.array([*prompt, *output.token_ids], np.int32), len(prompt))
        for (_, prompt), output in zip(fitting, outputs, strict=True)
        if output.error is None and len(output.token_ids) > 2
    ]


def _fitting(llm: Any, chunk: Sequence[Asked], max_len: int) -> Iterator[tuple[Asked, list[int]]]:
    for one in chunk:
        try:
            prompt = _prompt(llm, one)
        except SpecguideError:
            continue
        if len(prompt) <= max_len:
            yield one, prompt


def _prompt(llm: Any, one: Asked) -> list[int]:
    """The token ids of a prompt, as `specguide bench acceptance` asks it."""
    task, tokenizer = one.task, llm.tokenizer
    ids: list[int] = tokenizer.apply_chat_template(
        messages_of(task, tokenizer.chat_template),
        tools=task.tools or None,
        json_schema=task.schema,
    )
    return ids
