"""Ends of grammars that are found behind the first row: till then bounds tell what must be."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from byte_vocabulary import VOCABULARY
from one_compiler import compiler_of

from benchmarks.common import read_jsonl
from specguide import Guide, GuideConfig, native
from specguide.errors import InvalidParams, SpecguideError
from specguide.guided.compiling.libraries import Libraries
from specguide.guided.matcher import allowed_tokens
from specguide.guided.wrappers.endings import EndingGrammar

WORDS = VOCABULARY.native
TRIE = native.TokenTrie(WORDS)
LONG = {"type": "array", "items": {"type": "integer"}, "minItems": 40}
EITHER = {"anyOf": [{"type": "object", "required": ["a"]}, LONG]}
PRODUCTS = (
    'start: X ":" | "z"\nX: Y & ~("\\"ab\\"" | /"na_[a-z]+"/)\nY: /"[_a-z!]*"/',
    'start: X ":"\nX: Y & ~(/"[a-b]+c*"/ | /"[a-c]{2,}d?"/)\nY: /"[a-d]*"/',
    "start: X\nX: /(ab|c)*d?/ & /[a-d]{2,}[cd]/",
    "start: X\nX: /[a-z]+@[a-z]+/ & /.{1,6}@.{2,3}/",
    "start: X\nX: /[a-z]([a-z]|é)*/ & /.{3,3000}/",
    "start: X\nX: /.*ab1.*/ & /.*cd2.*/ & /.*ef3.*/ & /.{200,}/",  # met soon, yet of many states
    "start: X\nX: /-?(0|[1-9][0-9]{0,2999})(\\.[0-9]+)?/ & /-?[0-9]*([02468][048]|[13579][26])/",
)
GRAMMARS = (
    'start: "a" other | "b"\nother: other2 "c"\nother2: "d"{3,7}',
    'start: x\nx: "(" x x ")" | /[0-9é]{2,}/',
    'start: X\nX: Y & ~("\\"ab\\"" | "\\"b\\"")\nY: /"[a-c]*"/',
    'start: TEXT | lead "x"\nTEXT: /(?s:.*)/ & ~/(?s:.*)<f>(?s:.*)/\nlead[lazy]: /(?s:.*)<f>/',
    "start: X\nX: /[a-z]{4,9}/ & /(ab)*c?/",
    'start: "a" X "b" | "c"\nX: /[ab]*/ & ~/[ba]*/',
    *PRODUCTS,
)
compiler = compiler_of(VOCABULARY, scope="function")


def ends(lark: str, *, may_wait: bool) -> native.Endings:
    pool = native.AutomatonPool(1 << 28)
    return native.Endings("lark", lark, TRIE, pool, is_exact=True, may_wait=may_wait)


def first_row(grammar: EndingGrammar, endings: native.Endings, most: int) -> np.ndarray:
    row = np.zeros(VOCABULARY.num_words, np.int32)
    native.EndingMatcher(grammar.inner.matcher(), endings, most).fill(row)
    return row


@pytest.fixture(scope="module")
def libraries() -> Libraries:
    return Libraries(VOCABULARY, GuideConfig())


def written(libraries: Libraries, guide: Guide) -> tuple[EndingGrammar, str] | None:
    try:
        found = libraries.first_enforcing(guide, "llguidance", lambda _: None)
        grammar = libraries.served(found.grammar, found.written, guide)
    except SpecguideError:
        return None
    outline = found.written.outline
    is_sure = isinstance(grammar, EndingGrammar) and grammar.may_be_exact
    return (grammar, outline.text) if is_sure and outline is not None else None


def check_bounds(grammar: EndingGrammar, lark: str) -> bool:
    """A first row that waits for nothing is that of the ends. Whether there was one."""
    known = ends(lark, may_wait=False)
    least, waits = known.num_least, False
    for most in (least, least + 1, least + 3, least + 10, least + 40, least + 400, least + 4000):
        late = ends(lark, may_wait=True)
        assert late.most_least >= least
        found = first_row(grammar, late, most)
        assert np.array_equal(found, first_row(grammar, known, most)), most
        if not late.is_built:
            waits = True
            check_first_tokens(known, found, most)
    assert late.num_least == least and late.is_built
    return waits


def check_first_tokens(known: native.Endings, row: np.ndarray, most: int) -> None:
    """Behind each token of a row there is room for what is missing."""
    for token in allowed_tokens(row):
        text = VOCABULARY.token_bytes[token]
        assert not text or 0 <= known.num_missing(text) <= most - 1


@pytest.mark.parametrize("lark", GRAMMARS)
def test_first_rows_of_grammars(libraries, lark):
    found = libraries.compile(Guide(grammar=lark), "llguidance")
    grammar = EndingGrammar(found, ends(lark, may_wait=False), len(VOCABULARY), 0, True, 0)
    check_bounds(grammar, lark)


@pytest.mark.parametrize("lark", PRODUCTS)
def test_the_ends_of_products_can_wait(lark):
    late, known = ends(lark, may_wait=True), ends(lark, may_wait=False)
    assert not late.is_built
    assert late.most_least >= known.num_least


def test_first_rows_of_real_schemas(libraries, data_dir):
    schemas = [record["schema"] for record in read_jsonl(data_dir / "jsonschemabench.jsonl")]
    found = [written(libraries, Guide(json_schema=one)) for one in [EITHER, *schemas[7::60]]]
    assert sum(check_bounds(*one) for one in found if one is not None) > 10


def test_parts_that_many_lead_to_are_looked_at_once():
    doubled = "\n".join(f"A{i}: A{i + 1} A{i + 1} | A{i + 1}" for i in range(40))
    lark = f'start: X\nX: /"[a-z!]*"/ & ~(A0 | /b+/)\n{doubled}\nA40: /a*/'
    start = time.thread_time()
    ends(lark, may_wait=True)
    assert time.thread_time() - start < 5


def test_a_text_that_cannot_end_in_time_is_waited_for(libraries):
    grammar, lark = written(libraries, Guide(json_schema=EITHER)) or pytest.fail("no ends")
    late = ends(lark, may_wait=True)
    assert late.most_least < 20
    row = first_row(grammar, late, 60)
    assert late.is_built
    assert not row[ord("[") // 32] >> ord("[") % 32 & 1
    assert row[ord("{") // 32] >> ord("{") % 32 & 1


def test_ends_are_found_behind_the_grammar(compiler):
    grammar = compiler.submit(Guide(json_schema=EITHER)).result()
    assert isinstance(grammar, EndingGrammar)
    assert grammar.has_room(20) and not grammar.has_room(2)
    until = time.monotonic() + 10
    while not grammar.endings.is_built and time.monotonic() < until:
        time.sleep(0.01)
    assert grammar.endings.is_built


def test_who_has_little_room_is_told_with_the_ends(compiler):
    for _ in range(2):  # also of the cache
        grammar = compiler.submit(Guide(json_schema=EITHER), room=2).result()
        assert isinstance(grammar, EndingGrammar) and grammar.endings.is_built
        with pytest.raises(InvalidParams, match="takes 5 tokens"):
            grammar.within(2)


@pytest.mark.parametrize("most", [8, 12, 90, 120, 400])
def test_outputs_end_in_time_whoever_comes_first(compiler, most):
    rng = random.Random(3)
    grammar = compiler.submit(Guide(json_schema=EITHER), room=most).result()
    matcher = grammar.within(most).matcher()
    row = np.zeros(VOCABULARY.num_words, np.int32)
    for _ in range(most):
        matcher.fill(row)
        allowed = allowed_tokens(row)
        assert matcher.accept(int(rng.choice(allowed)))
        if matcher.is_terminated:
            break
    assert matcher.is_terminated
