"""Structural tags of many tools, whose JSON is compiled as they begin: as if all were at once."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from call_messages import (
    CLOSED,
    END,
    LIKE_MARKS,
    LIMITS,
    NAMES,
    PLAIN,
    SCHEMAS,
    VOCABULARY,
    is_deferred,
    row_of,
    spelt,
)

from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.known.call_texts import LEAST_DEFERRED
from specguide.guided.notations import tag_calls

WAYS: list[dict[str, Any]] = [{}, {"at_least_one": True}, {"stop_after_first": True}]
END_OF_TAG = "</function>"


def tags(**more: Any) -> Guide:
    named = [*NAMES, *(f"other_{i}" for i in range(LEAST_DEFERRED))]
    made = [
        {
            "begin": f"<function={name}>",
            "content": {"type": "json_schema", "json_schema": SCHEMAS[i % len(SCHEMAS)]},
            "end": END_OF_TAG,
        }
        for i, name in enumerate(named)
    ]
    form = {"type": "triggered_tags", "triggers": ["<function="], "tags": made, **more}
    return Guide(structural_tag={"type": "structural_tag", "format": form})


@cache
def deferring() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, LIMITS)


def whole_of(guide: Guide, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(tag_calls, "LEAST_DEFERRED", 1 << 20)
    grammar = GrammarCompiler(VOCABULARY, LIMITS).compile(guide)
    patch.undo()
    return grammar


def message(choose: random.Random, **more: Any) -> str:
    parts = [""] if more.get("at_least_one") else ["so <func"]
    for _ in range(1 if more.get("stop_after_first") else 3):
        name, schema = choose.choice(list(zip(NAMES, SCHEMAS, strict=False)))
        texts = {"a": choose.choice([*LIKE_MARKS, "<function=we>"])}
        value = {"a": "{"} if schema is CLOSED else texts if schema is PLAIN else {}
        indent = choose.choice([None, 1])
        parts += [f"<function={name}>", json.dumps(value, indent=indent), END_OF_TAG]
        parts += [] if more else [choose.choice(["", "\nand <", "function=we>"])]
    return "".join(parts)


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_rows_are_those_of_all_compiled_at_once(way, monkeypatch):
    choose = random.Random(way)
    guide = tags(**WAYS[way])
    parted, whole = deferring().compile(guide), whole_of(guide, monkeypatch)
    assert is_deferred(parted) and not is_deferred(whole)
    for _ in range(8):
        matchers = parted.matcher(), whole.matcher()
        tokens = [*spelt(message(choose, **WAYS[way]), choose), END]
        for num_taken, token in enumerate(tokens):
            rows = list(map(row_of, matchers))
            assert np.array_equal(*rows), tokens[:num_taken]
            assert [one.accept(token) for one in matchers] == [True, True], tokens[:num_taken]
            if choose.random() < 0.1:
                back = choose.randint(1, num_taken + 1)
                for one in matchers:
                    one.rollback(back)
                    assert all(map(one.accept, tokens[num_taken + 1 - back : num_taken + 1]))
        matchers[0].rollback(len(tokens))
        walk(choose, matchers[0], whole.matcher())


def walk(choose: random.Random, parted: Any, whole: Any) -> None:
    for _ in range(60):
        allowed = row_of(whole)
        assert np.array_equal(row_of(parted), allowed)
        likely = [token for token in allowed if token != END and token >= 256]
        token = int(choose.choice(likely or allowed))
        assert parted.accept(token) and whole.accept(token)
        if whole.is_terminated:
            break


@pytest.mark.parametrize(
    "change",
    [
        {"end": ""},  # what follows JSON is any text
        {"end": "<func"},  # with which a trigger may begin
        {"begin": "<function=a"},  # another sign behind the name
        {"content": {"type": "json_schema", "json_schema": PLAIN, "max_whitespace_cnt": 1}},
    ],
)
def test_other_tags_are_compiled_at_once(change):
    tag = json.loads(tags().source())
    tag["format"]["tags"][3].update(change)
    assert not is_deferred(deferring().compile(Guide(structural_tag=tag)))


def test_texts_of_tags_end_in_time():
    grammar = deferring().compile(tags(at_least_one=True))
    choose = random.Random(7)
    for most in (grammar.num_needed, grammar.num_needed + 20):
        matcher = grammar.within(most).matcher()
        for _ in range(most):
            assert matcher.accept(int(choose.choice(row_of(matcher))))
            if matcher.is_terminated:
                break
        assert matcher.is_terminated or END in row_of(matcher)
