"""Owns what draft heads are trained on: tokenised examples, the target's own greedy answers, the
pruned draft vocabulary, and the packing into batches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from training.data.answer_style import COMPACT_SHARE
from training.data.chat import END, render_prompt
from training.data.tasks import sample_task
from training.heads.unroll import PackedBatch

# Text that every JSON document may need: any run of punctuation, digits and white space, and the
# three literals.
JSON_TOKEN = re.compile(r"[\s{}\[\]\",:\-+.0-9]+|\s*(?:true|false|null)|[!-~]", re.ASCII)


Settings = Mapping[str, object]
"""What examples depend on, by name."""


@dataclass(frozen=True)
class Example:
    """A prompt and its answer. ids: [N] int32, the end token included; the answer begins at
    prompt_len ≥ 1."""

    ids: np.ndarray
    prompt_len: int

    @property
    def answer(self) -> np.ndarray:
        return self.ids[self.prompt_len :]


def make_examples(
    tokenizer: Tokenizer,
    seed: int,
    count: int,
    max_len: int,
    split: str = "known",
    compact_share: float = COMPACT_SHARE,
) -> list[Example]:
    """`count` examples of the task mixture, with the data's answers; compact_share as in
    `sample_task`. Tasks longer than `max_len` tokens are replaced by the next ones, and their
    number is printed."""
    random = Random(f"draft {split} {seed}")
    examples: list[Example] = []
    too_long = 0
    with tqdm(total=count, desc=f"{split} tasks", unit="task") as bar:
        while len(examples) < count:
            tasks = [
                sample_task(random, split, compact_share)
                for _ in range(min(2000, count - len(examples)))
            ]
            prompts = tokenizer.encode_batch(
                [render_prompt(x) for x in tasks], add_special_tokens=False
            )
            answers = tokenizer.encode_batch(
                [x.answer + END for x in tasks], add_special_tokens=False
            )
            made = [
                Example(np.array(p.ids + a.ids, np.int32), len(p.ids))
                for p, a in zip(prompts, answers, strict=True)
            ]
            fitting = [x for x in made if len(x.ids) <= max_len]
            too_long += len(made) - len(fitting)
            examples += fitting
            bar.update(len(fitting))
    if too_long:
        print(f"{too_long} tasks longer than {max_len} tokens were replaced by others")
    return examples


def with_opening(tokenizer: Tokenizer, example: Example) -> Example:
    """The example with its answer up to the first `":` moved into the prompt: whoever goes on from
    there keeps to the style of its JSON. An answer without one is left as it is."""
    for place, token in enumerate(example.answer):
        if '":' in tokenizer.decode([int(token)], skip_special_tokens=False):
            return Example(example.ids, example.prompt_len + place + 1)
    return example


def write_examples(file: Path, examples: Sequence[Example], settings: Settings) -> None:
    """Keep examples in an .npz file: all ids in one array, then every example's two lengths, and
    what they were made with. Raises ValueError where there are none."""
    if not examples:
        raise ValueError(
            f"{file}: no examples were made; give a larger --num-examples or --answer-minutes"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    lengths = np.array([(len(x.ids), x.prompt_len) for x in examples], np.int32)
    ids = np.concatenate([x.ids for x in examples])
    np.savez_compressed(file, ids=ids, lengths=lengths, settings=json.dumps(settings))


def read_examples(file: Path, settings: Settings | None = None) -> list[Example]:
    """What `write_examples` wrote. Raises ValueError where they were made with other settings than
    are given."""
    with np.load(file) as stored:
        ids, lengths = stored["ids"], stored["lengths"]
        if settings is not None and str(stored.get("settings")) != json.dumps(settings):
            raise ValueError(
                f"{file} is of a run with other settings; name another --run or delete it"
            )
    parts = np.split(ids, np.cumsum(lengths[:-1, 0]))
    return [
        Example(part, int(prompt_len)) for part, (_, prompt_len) in zip(parts, lengths, strict=True)
    ]


@dataclass(frozen=True)
class PackPlan:
    """Rows of `row_len` tokens, `num_rows` a batch; a prompt position is an anchor with chance
    `prompt_rate`."""

    row_len: int
    num_rows: int
    prompt_rate: float


def pack_rows(
    examples: Sequence[Example], row_len: int, order: np.ndarray
) -> Iterator[list[Example]]:
    """Fill rows first-come in `order`; raises ValueError for an example that no row can hold."""
    row: list[Example] = []
    used = 0
    for index in order:
        example = examples[index]
        if len(example.ids) > row_len:
            raise ValueError(
                f"an example of {len(example.ids)} tokens does not fit rows of {row_len}"
            )
        if used + len(example.ids) > row_len:
            yield row
            row = []
            used = 0
        row.append(example)
        used += len(example.ids)
    if row:
        yield row


def example_anchors(example: Example, prompt_rate: float, rng: np.random.Generator) -> np.ndarray:
    """Positions from which drafting starts: all that draft answer tokens, and a sample of the
    prompt's; int64."""
    first, last = example.prompt_len - 1, len(example.ids) - 3
    prompt = np.flatnonzero(rng.random(max(min(first, last + 1), 0)) < prompt_rate)
    return np.concatenate((prompt, np.arange(first, last + 1)))


def collate(
    rows: Sequence[Sequence[Example]], plan: PackPlan, rng: np.random.Generator
) -> PackedBatch:
    """Rows of examples as one batch on the CPU, anchors padded to a multiple of 64 (few distinct
    shapes)."""
    shape = (len(rows), plan.row_len)
    ids, positions, documents = (
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.full(shape, -1, np.int64),
    )
    anchors: list[np.ndarray] = []
    for r, row in enumerate(rows):
        start = 0
        chosen = [np.zeros(0, np.int64)]
        for d, example in enumerate(row):
            span = slice(start, start + len(example.ids))
            ids[r, span] = example.ids
            positions[r, span] = np.arange(len(example.ids))
            documents[r, span] = d
            chosen.append(start + example_anchors(example, plan.prompt_rate, rng))
            start = span.stop
        anchors.append(np.concatenate(chosen))
    index = np.zeros((len(rows), 64 * max(1, *(-(-len(a) // 64) for a in anchors))), np.int64)
    mask = np.zeros(index.shape, bool)
    for r, chosen_row in enumerate(anchors):
        index[r, : len(chosen_row)] = chosen_row
        mask[r, : len(chosen_row)] = True
    return PackedBatch(*(torch.from_numpy(x) for x in (ids, positions, documents, index, mask)))


def batches(
    examples: Sequence[Example], plan: PackPlan, seed: int, start: int = 0
) -> Iterator[PackedBatch]:
    """Batches without end, from number `start` on; every batch is a function of the seed and its
    number alone. A last, smaller batch of an epoch is left to the next epoch's shuffle."""
    number = epoch = 0
    while True:
        order = np.random.default_rng((seed, epoch)).permutation(len(examples))
        rows = list(pack_rows(examples, plan.row_len, order))
        full = max(1, len(rows) // plan.num_rows)
        for i in range(max(0, start - number), full):
            rng = np.random.default_rng((seed, epoch, i))
            yield collate(rows[i * plan.num_rows : (i + 1) * plan.num_rows], plan, rng)
        number, epoch = number + full, epoch + 1


def choose_draft_ids(
    examples: Sequence[Example], tokenizer: Tokenizer, size: int, always: Sequence[int] = ()
) -> tuple[Tensor, float]:
    """The draft vocabulary: what JSON needs, `always` (the end tokens), then the commonest tokens
    of the answers.

    Returns ascending target ids [size] int64, and the share of answer tokens that they cover.
    Raises ValueError when `size` is too small for the first two or larger than the vocabulary.
    """
    vocab_size = tokenizer.get_vocab_size()
    counts = np.bincount(np.concatenate([x.answer for x in examples]), minlength=vocab_size)
    texts = [tokenizer.decode([i], skip_special_tokens=False) for i in range(vocab_size)]
    needed = sorted({i for i, text in enumerate(texts) if JSON_TOKEN.fullmatch(text)} | set(always))
    if not len(needed) <= size <= vocab_size:
        raise ValueError(
            f"a draft vocabulary must have {len(needed)} to {vocab_size} tokens, found {size}"
        )
    rest = [int(i) for i in np.argsort(-counts, kind="stable") if i not in set(needed)]
    chosen = np.sort(np.array(needed + rest[: size - len(needed)], np.int64))
    return torch.from_numpy(chosen), float(counts[chosen].sum() / max(counts.sum(), 1))


@torch.no_grad()
def answer_greedily(
    target: PreTrainedModel,
    examples: Sequence[Example],
    eos_ids: Sequence[int],
    max_new_tokens: int,
    batch_size: int = 384,
) -> list[Example]:
    """The examples' prompts with the target's own greedy answers, cut after the end token or
    `max_new_tokens`. Examples of like answer length share a batch, since the longest answer of a
    batch sets its time."""
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].answer))
    answered: dict[int, Example] = {}
    for begin in tqdm(range(0, len(order), batch_size), desc="greedy answers", unit="batch"):
        chunk = order[begin : begin + batch_size]
        prompts = [examples[i].ids[: examples[i].prompt_len] for i in chunk]
        width = max(len(x) for x in prompts)
        ids = torch.full((len(chunk), width), eos_ids[0], dtype=torch.int64)
        mask = torch.zeros((len(chunk), width), dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            start = width - len(prompt)
            ids[row, start:] = torch.from_numpy(prompt)
            mask[row, start:] = 1
        out = target.generate(
            ids.to(target.device),
            attention_mask=mask.to(target.device),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            eos_token_id=list(eos_ids),
            pad_token_id=eos_ids[0],
        )
        new_ids = out[:, width:].cpu().numpy().astype(np.int32)
        for i, prompt, new in zip(chunk, prompts, new_ids, strict=True):
            ends = np.flatnonzero(np.isin(new, eos_ids))
            answer = new[: ends[0] + 1] if len(ends) else new
            answered[i] = Example(np.concatenate((prompt, answer)), len(prompt))
    return [answered[i] for i in range(len(examples))]
