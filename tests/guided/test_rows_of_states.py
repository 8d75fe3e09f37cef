"""Rows that matchers of one grammar share where their texts go on alike: those of the library."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from byte_vocabulary import VOCABULARY

from benchmarks.common import read_jsonl
from specguide import Guide, GuideConfig, native
from specguide.errors import UnsupportedGuide
from specguide.guided.compiling.libraries import Libraries
from specguide.guided.matcher import allowed_tokens
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.tokenizer.vocabulary import Vocabulary

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["a", "ab", "b"]}},
    },
    "required": ["name", "age"],
}


@pytest.fixture(scope="module")
def libraries() -> Libraries:
    return Libraries(VOCABULARY, GuideConfig())


COUNTED = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 20, "maxLength": 90},
        "code": {"type": "string", "pattern": "^[ab]{19,40}(x|yy)?$"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 24}, "maxItems": 25},
        "note": {"type": "string", "maxLength": 300},
    },
    "required": ["title", "code", "tags", "note"],
    "additionalProperties": False,
}
LONG = [
    text * n for text in (b"a", b" ", b"ab", "é".encode(), b'","') for n in (2, 9, 17, 18, 25, 64)
]
LONG_VOCABULARY = Vocabulary((*VOCABULARY.token_bytes, *LONG), VOCABULARY.eos_token_ids)


def served(libraries: Libraries, schema: object) -> EndingGrammar:
    guide = Guide(json_schema=json.dumps(schema))
    enforced = libraries.first_enforcing(guide, "auto", lambda backend: None)
    grammar = libraries.served(enforced.grammar, enforced.written, guide)
    assert isinstance(grammar, EndingGrammar)
    return grammar


def check_rows(
    grammar: EndingGrammar,
    rng: random.Random,
    num_steps: int,
    vocabulary: Vocabulary = VOCABULARY,
) -> int:
    """Compare the rows of a matcher that shares rows with those of the library, along one random
    walk, some of which is taken back. Returns how many were compared."""
    sharing, own = grammar.matcher(), grammar.inner.matcher()
    rows = np.zeros((2, vocabulary.num_words), np.int32)
    num_taken = 0
    for step in range(num_steps):
        if own.is_terminated:
            return step
        sharing.fill(rows[0])
        own.fill(rows[1])
        assert (rows[0] == rows[1]).all()
        token = rng.choice(allowed_tokens(rows[1]))
        refused = rng.randrange(len(vocabulary))
        if not rows[1].view(np.uint32)[refused // 32] >> refused % 32 & 1:
            assert not sharing.accept(refused)
        assert sharing.accept(int(token)) and own.accept(int(token))
        assert sharing.is_terminated == own.is_terminated
        num_taken += 1
        if num_taken > 3 and rng.random() < 0.2:
            num_back = rng.randint(1, 3)
            sharing.rollback(num_back)
            own.rollback(num_back)
            num_taken -= num_back
    return num_steps


def test_rows_of_a_schema_are_shared(libraries: Libraries) -> None:
    grammar, rng = served(libraries, PERSON), random.Random(1)
    assert grammar.endings.is_exact
    num_rows = sum(check_rows(grammar, rng, 80) for _ in range(20))
    assert grammar.endings.num_shared > 0.5 * num_rows


def test_shared_rows_of_real_schemas_are_those_of_the_library(
    libraries: Libraries, data_dir
) -> None:
    num_rows, num_shared, rng = 0, 0, random.Random(2)
    for record in list(read_jsonl(data_dir / "jsonschemabench.jsonl"))[3::50]:
        try:
            grammar = served(libraries, record["schema"])
        except (UnsupportedGuide, AssertionError):  # refused, or without known ends
            continue
        num_rows += sum(check_rows(grammar, rng, 60) for _ in range(3))
        num_shared += grammar.endings.num_shared
    assert num_rows > 1000 and num_shared > 0.4 * num_rows


def test_counts_far_from_their_bounds_are_not_told_apart() -> None:
    grammar, rng = served(Libraries(LONG_VOCABULARY, GuideConfig()), COUNTED), random.Random(3)
    num_rows = sum(check_rows(grammar, rng, 60, LONG_VOCABULARY) for _ in range(40))
    assert grammar.endings.is_exact and grammar.endings.num_shared > 0.8 * num_rows


def draft(sharing, own, rng: random.Random, row: np.ndarray) -> list[str]:
    """A window of drafts by what the sharing matcher says at once, taken back in both. Returns
    what it said of its rows; what is no guess must be what the library says."""
    said, num_taken, num_own, exact = [], 0, 0, np.zeros_like(row)
    for _ in range(4):
        said.append(sharing.fill_draft(row).name)
        if said[-1] == "YES":
            own.fill(exact)
            assert (row == exact).all()
        if said[-1] == "NO_BY_GUESS":
            break
        tokens = allowed_tokens(row)
        token = int(rng.choice(tokens))
        taken = sharing.accept_draft(token).name
        is_own = num_own == num_taken and own.accept(token)
        assert taken != "NO" or not is_own
        assert taken != "YES" or is_own
        num_own += is_own
        if taken in ("NO", "NO_BY_GUESS"):
            break
        num_taken += 1
        if sharing.is_terminated:
            break
    if num_taken:
        sharing.rollback(num_taken)
    if num_own:
        own.rollback(num_own)
    return said


@pytest.mark.parametrize("schema", [PERSON, COUNTED], ids=["person", "counted"])
def test_rows_of_drafts_are_guessed_and_exact_behind_them(schema) -> None:
    grammar, rng = served(Libraries(LONG_VOCABULARY, GuideConfig()), schema), random.Random(4)
    rows, said = np.zeros((2, LONG_VOCABULARY.num_words), np.int32), []
    for _ in range(30):
        sharing, own = grammar.matcher(), grammar.inner.matcher()
        for _ in range(40):
            said += draft(sharing, own, rng, rows[0])
            sharing.fill(rows[0])
            own.fill(rows[1])
            assert (rows[0] == rows[1]).all()
            bits = np.unpackbits(rows[1].view(np.uint8), bitorder="little")
            token = int(rng.choice(np.flatnonzero(bits)))
            assert sharing.accept(token) and own.accept(token)
            if own.is_terminated:
                break
    assert said.count("YES") > said.count("YES_BY_GUESS") > 0


def test_what_is_told_in_part_is_not_shared() -> None:
    """A product of too many states, of which the first factor alone is read."""
    words = VOCABULARY.native
    trie, pool = native.TokenTrie(words), native.AutomatonPool(1 << 28)
    text = "start: A\nA: /(a|b)*a(a|b){14}/ & /(a|b)*b(a|b){13}/"
    assert not native.Endings("lark", text, trie, pool, is_exact=True).is_exact
    assert native.Endings("lark", "start: /ab*/", trie, pool, is_exact=True).is_exact
    assert not native.Endings("lark", "start: /ab*/", trie, pool).is_exact
