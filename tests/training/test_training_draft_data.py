"""What draft heads are trained on: packing, anchors, reproducible batches, the pruned
vocabulary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

import specguide
from training.data.draft_data import (
    Example,
    PackPlan,
    batches,
    choose_draft_ids,
    example_anchors,
    pack_rows,
    read_examples,
    with_opening,
    write_examples,
)
from training.heads.eagle3 import load_head

TARGET = Path(specguide.__file__).parent / "assets" / "small" / "target"


def some_examples(count: int) -> list[Example]:
    rng = np.random.default_rng(0)
    sizes = rng.integers(6, 18, count)
    return [
        Example(rng.integers(4, 48, n).astype(np.int32), int(rng.integers(1, n - 3))) for n in sizes
    ]


def test_batches_depend_on_seed_and_number_alone() -> None:
    examples, plan = some_examples(40), PackPlan(40, 2, 0.3)
    stream = batches(examples, plan, seed=5)
    first = [next(stream) for _ in range(20)]
    later = next(batches(examples, plan, seed=5, start=17))
    assert torch.equal(first[17].input_ids, later.input_ids) and torch.equal(
        first[17].anchors, later.anchors
    )
    assert not torch.equal(first[0].input_ids, next(batches(examples, plan, seed=6)).input_ids)


def test_packing_refuses_what_no_row_can_hold() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        list(pack_rows([Example(np.zeros(41, np.int32), 3)], 40, np.arange(1)))


def test_anchors_are_the_positions_that_draft_answer_tokens() -> None:
    example = Example(np.arange(10, dtype=np.int32), 6)
    assert example_anchors(example, 0.0, np.random.default_rng(0)).tolist() == [5, 6, 7]
    assert example_anchors(example, 1.0, np.random.default_rng(0)).tolist() == list(range(8))
    assert example_anchors(
        Example(np.arange(3, dtype=np.int32), 2), 1.0, np.random.default_rng(0)
    ).tolist() == [0]


def test_examples_survive_their_file(tmp_path: Path) -> None:
    examples, file = some_examples(7), tmp_path / "run" / "examples.npz"
    write_examples(file, examples, {"seed": 1})
    again = read_examples(file, {"seed": 1})
    assert len(read_examples(file)) == len(again)
    assert [(x.ids.tolist(), x.prompt_len) for x in again] == [
        (x.ids.tolist(), x.prompt_len) for x in examples
    ]


def test_examples_of_other_settings_are_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "examples.npz"
    write_examples(file, some_examples(3), {"target": "a", "seed": 1})
    with pytest.raises(ValueError, match="other settings"):
        read_examples(file, {"target": "b", "seed": 1})
    with pytest.raises(ValueError, match="no examples"):
        write_examples(file, [], {})


def test_an_opening_ends_with_the_first_separator() -> None:
    tokenizer = Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    ids = tokenizer.encode('ask<|assistant|>{"name":"x","age":3}', add_special_tokens=False).ids
    example = Example(
        np.array(ids, np.int32), ids.index(tokenizer.token_to_id("<|assistant|>")) + 1
    )
    opened = with_opening(tokenizer, example)
    assert tokenizer.decode(opened.answer.tolist()) == 'x","age":3}' and opened.ids is example.ids
    assert (
        with_opening(tokenizer, opened).answer.tolist()
        == opened.answer[opened.answer.tolist().index(tokenizer.token_to_id('":')) + 1 :].tolist()
    )
    free = Example(example.ids[:3], 1)
    assert with_opening(tokenizer, free) is free


def test_the_shipped_vocabulary_cuts_compact_json_at_its_separators() -> None:
    tokenizer = Tokenizer.from_file(str(TARGET / "tokenizer.json"))
    assert tokenizer.encode('{"name":"x","age":3}', add_special_tokens=False).tokens == [
        '{"',
        "name",
        '":"',
        "x",
        '","',
        "age",
        '":',
        "3",
        "}",
    ]
    drafted = set(load_head(TARGET.parent / "eagle3").draft_ids.tolist())
    assert {
        tokenizer.token_to_id(token) for token in ('":"', '","', '":', ',"', '":{"', "},")
    } <= drafted


def test_draft_vocabulary_keeps_json_and_the_commonest() -> None:
    words = ["<end>", "{", "}", '"', '":', "true", "x", "été", "word", "rare", "common"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    answer = Example(np.array([1, 10, 10, 10, 8, 8, 9, 0], np.int32), 1)
    ids, coverage = choose_draft_ids([answer], tokenizer, 9, always=[0])
    assert ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 10]
    assert coverage == pytest.approx(6 / 7)
    with pytest.raises(ValueError, match="7 to 11"):
        choose_draft_ids([answer], tokenizer, 5, always=[0])
