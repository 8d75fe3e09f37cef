"""How far a text is from its end: found by going through regular expressions, and what of grammars
is given up or cannot be read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY
from ending_grammars import allowed, compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide import Guide, GuideConfig, native
from specguide.guided.compile import GrammarCompiler
from specguide.tokenizer.vocabulary import Vocabulary

LETTERS = Vocabulary((b"a", b"b", b"c", b"", b"d"), (3,))


@pytest.fixture(scope="module", params=["auto", "xgrammar"])
def compiler(request):
    return GrammarCompiler(VOCABULARY, GuideConfig(backend=request.param, isolate_compiles=False))


REGEXES = st.recursive(
    st.sampled_from(["a", "b", "c", "[ab]", "d"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2,3}", "{1,}"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=6,
)


def least_to_end(matcher, most: int) -> int | None:
    """Tokens to the nearest end, the end token included, by trying all; None: more than `most`."""
    if most <= 0:
        return None
    tokens = allowed(matcher, LETTERS)
    if 3 in tokens:
        return 1
    found = None
    for token in tokens:
        matcher.accept(token)
        behind = least_to_end(matcher, (most if found is None else found - 1) - 1)
        matcher.rollback(1)
        if behind is not None:
            found = behind + 1
    return found


@settings(max_examples=40, deadline=None)
@given(REGEXES, st.integers(0, 4), st.integers(0, 2**31))
def test_rows_hold_all_that_can_be_finished(regex, extra, seed):
    compiler = GrammarCompiler(LETTERS, GuideConfig(isolate_compiles=False))
    grammar = compiled(compiler, Guide(regex=regex))
    free, rng = grammar.matcher(), random.Random(seed)
    assert grammar.num_least == least_to_end(free, 24)
    most = grammar.num_least + extra
    timed = grammar.within(most).matcher()
    for num_left in range(most, 0, -1):
        wanted = []
        for token in allowed(free, LETTERS):
            free.accept(token)
            if free.is_terminated or least_to_end(free, num_left - 1) is not None:
                wanted.append(token)
            free.rollback(1)
        assert allowed(timed, LETTERS) == wanted
        token = rng.choice(wanted)
        assert timed.accept(token) and free.accept(token)
        if timed.is_terminated:
            return
    raise AssertionError("it has not ended")


HOSTILE = [
    "((((a{1,100}){1,100}){1,100}){1,100}){1,100}",
    "((a*)*)*b",
    "(a|b)*a(a|b){40}",
    "(x+x+)+y",
    "(a?){500}a{500}",
]


def endings_of(form: str, text: str, **more: Any) -> native.Endings:
    words = VOCABULARY.native
    trie, pool = native.TokenTrie(words), native.AutomatonPool(1 << 28)
    return native.Endings(form, text, trie, pool, **more)


@pytest.mark.parametrize("regex", HOSTILE)
def test_what_is_too_ambiguous_is_given_up(regex):
    """No text takes long, though an automaton of all its readings would be huge."""
    endings = endings_of("lark", f"start: /{regex}/")
    for text in (b"a" * 3000, b"ab" * 300, b"x" * 3000):
        assert endings.num_missing(text) >= -1


def test_products_of_terminals():
    both = endings_of("lark", "start: A\nA: /[ab]*/ & ~(/a*/ | /b{0,2}/) & /.{2,}/")
    assert both.num_least == 3 and both.num_missing(b"aa") == 2 and both.num_missing(b"ba") == 1
    first = endings_of("lark", 'start: text "!"\ntext[lazy]: /(?s:.*)<end>/')
    assert first.num_missing(b"no <en") == 4
    assert first.num_missing(b"<end>") == 2 and first.num_missing(b"<end>?") == -1


@pytest.mark.parametrize(
    ("form", "text", "why"),
    [
        ("lark", "start: other", "no rule"),
        ("lark", 'start: %json {"type": "string"}', "%json"),
        ("lark", "start: /(?=a)b/", "lookahead"),
        ("lark", 'start: "a', "ends too early"),
        ("ebnf", 'root ::= ("a"', "expected [)]"),
        ("ebnf", "root ::= [b-a]", "a range ends before it begins"),
        ("lark", "start: S\nS: /x/ & ~/y/ S", "too deep into each other"),
        ("lark", "start: S\nS: /x/ & ~T\nT: /y/ & ~S", "too deep into each other"),
        ("lark", "start: S\nS: /x/" + "?" * 100_000, "nests too deep"),
        ("lark", "start: /x" + "{2}" * 100_000 + "/", "nests too deep"),
        ("lark", "start: " + "%lark {start: " * 5_000 + '"x"' + "}" * 5_000, "nests too deep"),
        ("ebnf", 'root ::= "x"' + "*" * 100_000, "nests too deep"),
        ("ebnf", "root ::= " + "(" * 20_000 + '"x"' + ")" * 20_000, "nests too deep"),
    ],
    ids=lambda value: value[:24],
)
def test_what_cannot_be_read_is_told(form, text, why):
    with pytest.raises(ValueError, match=why):
        endings_of(form, text)


@pytest.mark.parametrize("may_wait", [False, True])
def test_a_long_chain_of_rules_is_followed(may_wait):
    chain = "start: r0\n" + "".join(f"r{i}: r{i + 1}\n" for i in range(30_000)) + 'r30000: "x"'
    assert endings_of("lark", chain, may_wait=may_wait).num_least == 2
