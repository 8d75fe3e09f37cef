"""Packed training rows made by worker processes, in an order fixed by the seed alone.

Row `i` of a stream depends only on (seed, i), so training resumes at any row and never sees
another's order.
"""

from __future__ import annotations

import multiprocessing
import queue
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

from training.data import chat
from training.data.tasks import sample_task

MAX_DOCUMENT = 1536  # tokens; longer examples are drawn again
MAX_DOCUMENTS = 96  # per row
PAD_ID = chat.CONTROL_TOKENS.index(chat.PAD)


class Row(NamedTuple):
    """One packed row: `ids` [row_len] uint16, `answer` [row_len] bool, `starts` offsets of the
    documents."""

    ids: np.ndarray[Any, Any]
    answer: np.ndarray[Any, Any]
    starts: list[int]


class Batch(NamedTuple):
    """Rows laid end to end: ids, targets, weights, positions [tokens]; `bounds` [documents + 1]
    int32."""

    ids: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    positions: torch.Tensor
    bounds: torch.Tensor


def make_row(tokenizer: Tokenizer, seed: int, index: int, row_len: int) -> Row:
    """Row `index`: whole documents until the next one would not fit; the rest is padding."""
    r = Random(seed * 1_000_003 + index)
    ids, answer = np.full(row_len, PAD_ID, np.uint16), np.zeros(row_len, np.bool_)
    starts: list[int] = []
    used = 0
    while len(starts) < MAX_DOCUMENTS:
        task = sample_task(r)
        prompt = tokenizer.encode(chat.render_prompt(task), add_special_tokens=False).ids
        reply = tokenizer.encode(task.answer + chat.END, add_special_tokens=False).ids
        size = len(prompt) + len(reply)
        if size > min(MAX_DOCUMENT, row_len):
            continue
        if used + size > row_len:
            break
        ids[used : used + size] = prompt + reply
        answer[used + len(prompt) : used + size] = True
        starts.append(used)
        used += size
    return Row(ids, answer, [*starts, *range(used, row_len, MAX_DOCUMENT)])


_TOKENIZERS: dict[str, Tokenizer] = {}


def _work(path: str, seed: int, index: int, row_len: int) -> Row:
    if path not in _TOKENIZERS:
        _TOKENIZERS[path] = Tokenizer.from_file(path)
    return make_row(_TOKENIZERS[path], seed, index, row_len)


class RowSource:
    """Iterates rows start, start + 1, … for ever, made by worker processes a bounded number of rows
    ahead.

    The workers are forked at construction, so build it before CUDA starts.
    """

    def __init__(
        self, tokenizer_file: Path, seed: int, start: int, row_len: int, workers: int
    ) -> None:
        self._pool = multiprocessing.get_context("fork").Pool(workers)
        self._arguments = (str(tokenizer_file), seed)
        self._row_len, self._next = row_len, start
        self._ahead = deque[Any]()
        self._depth = 12 * workers

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        while len(self._ahead) < self._depth:
            self._ahead.append(
                self._pool.apply_async(_work, (*self._arguments, self._next, self._row_len))
            )
            self._next += 1
        row: Row = self._ahead.popleft().get()
        return row


def collate(group: list[Row], prompt_weight: float) -> Batch:
    """The rows as one flat batch; a document's last position and padding have weight 0."""
    row_len = len(group[0].ids)
    total = row_len * len(group)
    ids = np.concatenate([row.ids for row in group]).astype(np.int64)
    answer = np.concatenate([row.answer for row in group])
    starts = np.array(
        [base * row_len + start for base, row in enumerate(group) for start in row.starts], np.int64
    )
    bounds = np.full(
        (MAX_DOCUMENTS + row_len // MAX_DOCUMENT + 1) * len(group) + 1, total, np.int32
    )
    bounds[: len(starts)] = starts
    lengths = np.diff(np.append(starts, total))
    positions = np.arange(total) - np.repeat(starts, lengths)
    targets = np.roll(ids, -1)
    weights = np.where(np.roll(answer, -1), 1.0, prompt_weight).astype(np.float32)
    weights[starts - 1] = 0.0
    weights[ids == PAD_ID] = 0.0
    return Batch(*(torch.from_numpy(x) for x in (ids, targets, weights, positions, bounds)))


def batches(
    source: Iterator[Row], rows_per_batch: int, prompt_weight: float, device: torch.device
) -> Iterator[Batch]:
    """Batches on `device`, collated by a thread a few batches ahead."""
    ready: queue.Queue[Batch] = queue.Queue(maxsize=6)

    def fill() -> None:
        while True:
            batch = collate([next(source) for _ in range(rows_per_batch)], prompt_weight)
            if device.type == "cuda":
                batch = Batch(*(x.pin_memory() for x in batch))
            ready.put(batch)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield Batch(*(x.to(device, non_blocking=True) for x in ready.get()))
