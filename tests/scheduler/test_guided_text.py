"""Stop strings and stop tokens beside a guide: they end an output where its grammar may end, and
what is left matches."""

from __future__ import annotations

import functools
import re
import time

import pytest
from byte_vocabulary import EOS, VOCABULARY
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.ends import GrammarEnds
from specguide.params import SamplingParams
from specguide.scheduler import GuidedText, OutputText

REGEXES = ["[ab]*", "(ab)+", "a(b|abc|12)*a?", "(a[ab]b)*", '\\{"(name|abc)": ?(true|12)\\}']
PIECES = ["a", "b", "ab", "ba", "aa", "bb", "abc", "12", "1", '{"', "name", '"', ": ", "true", "}"]


class Spoilt:
    """Bytes that are none stand before each token."""

    def add(self, token: int) -> str:
        return "\ufffd" + chr(token)


class Spelled:
    """The texts of tokens."""

    def add(self, token: int) -> str:
        return VOCABULARY.token_bytes[token].decode()

    def flush(self) -> str:
        return ""


@functools.cache
def compiled(name: str, regex: str) -> CompiledGrammar:
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(backend=name))
    try:
        return compiler.compile(Guide(regex=regex))
    finally:
        compiler.close()


def text_of(grammar: CompiledGrammar, **params) -> GuidedText:
    asked = SamplingParams(guide=Guide(regex="a"), **params)
    return GuidedText(Spelled(), asked, GrammarEnds(grammar.matcher(), VOCABULARY))


def tokens(text: str, cuts: list[int]) -> list[int]:
    """A text in tokens, of which some are words."""
    found, number = list[int](), 0
    while text:
        longest = max(
            (one for one in VOCABULARY.token_bytes if one and text.encode().startswith(one)),
            key=len,
        )
        piece = longest if cuts and cuts[number % len(cuts)] else text[0].encode()
        found.append(VOCABULARY.ids_by_bytes[piece])
        text, number = text[len(piece.decode()) :], number + 1
    return found


def first_stop(regex: str, text: str, stops: list[str], include: bool) -> tuple[str, str] | None:
    """The slow twin: character by character, by another judge of the grammar."""
    for end in range(1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            kept = text[: end if include else end - len(stop)]
            if text[:end].endswith(stop) and re.fullmatch(regex, kept):
                return kept, stop
    return None


@pytest.mark.parametrize("name", ["xgrammar", "llguidance"])
@settings(max_examples=60)
@given(data=st.data())
def test_an_output_ends_with_the_first_stop_that_leaves_it_whole(name, data):
    regex = data.draw(st.sampled_from(REGEXES))
    text = data.draw(st.from_regex(regex, fullmatch=True, alphabet='ab12{}": namectru'))
    stops = data.draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=3, unique=True))
    include = data.draw(st.booleans())
    output = text_of(compiled(name, regex), stop=stops, include_stop_str_in_output=include)
    cuts = data.draw(st.lists(st.integers(0, 1), max_size=5))
    found = next((stop for token in tokens(text, cuts) if (stop := output.add(token))), None)
    expected = first_stop(regex, text, stops, include)
    output.end()
    assert ((output.text, found) if found else None) == expected
    assert expected is not None or output.text == text


def test_a_stop_token_ends_where_the_grammar_may_end():
    [a, b] = map(ord, "ab")
    output = text_of(compiled("xgrammar", "(ab)+"), stop_token_ids=[a, b])
    assert output.add(a) is None and output.add(b) == b and output.text == "ab"
    output = text_of(compiled("xgrammar", "(ab)+"), stop_token_ids=[b])
    assert output.add(a) is None and output.add(b, may_stop=False) is None
    assert output.add(a) is None and output.add(b) == b and output.text == "abab"


def test_an_end_token_ends_the_matcher_too():
    output = text_of(compiled("xgrammar", "a*"), stop=["b"], stop_token_ids=[EOS])
    assert output.add(ord("a")) is None and output.add(EOS) == EOS and output.text == "a"


def test_a_library_that_fails_ends_nothing(caplog):
    class Broken:
        is_terminated = False

        def accept(self, token):
            raise RuntimeError("broken")

    ends = GrammarEnds(Broken(), VOCABULARY)
    ends.add(ord("a"))
    assert not ends.may_end() and not ends.may_end(1) and "broken" in caplog.text


def test_a_text_with_bytes_that_are_none_may_not_end():
    output = OutputText(Spelled(), ["a"], False, GrammarEnds(None, VOCABULARY).may_end)
    assert output.add(ord("a")) is None
    ends = GrammarEnds(compiled("xgrammar", "[^b]*").matcher(), VOCABULARY)
    output = OutputText(Spoilt(), ["c"], False, ends.may_end)
    ends.add(ord("a"))
    assert ends.may_end(0) and ends.may_end(1) and not ends.may_end(2)
    assert output.add(ord("a")) is None and output.add(ord("c")) is None


def test_stop_strings_where_the_grammar_may_not_end_cost_the_same_in_a_long_output():
    output = text_of(compiled("xgrammar", "(ab)*c"), stop=["ab"])
    begin_s = time.perf_counter()
    for _ in range(50_000):
        assert output.add(ord("a")) is None and output.add(ord("b")) is None
    assert time.perf_counter() - begin_s < 5
