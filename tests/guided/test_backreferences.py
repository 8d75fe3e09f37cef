"""Backreferences in patterns: to a group of few texts they are enforced."""

from __future__ import annotations

import re
from itertools import product

import pytest
from byte_vocabulary import VOCABULARY, takes
from hypothesis import given, settings
from hypothesis import strategies as st
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.budget import Budget
from specguide.guided.compile import GrammarCompiler
from specguide.guided.regex.automaton import automaton
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import RegexError, UnsupportedRegex
from specguide.guided.regex.whole import searched

TEXTS = ["".join(text) for length in range(6) for text in product("ab1", repeat=length)]
DATE = (
    r"^([+-]?\d{4}(?!\d{2}\b))((-?)(0[1-9]|1[0-2])(\3([12]\d|0[1-9]|3[01]))?"
    r"(T(([01]\d|2[0-3])((:?)[0-5]\d)?|24:?00)(\11[0-5]\d)?Z?)?)?$"
)
DATES = (
    *("2024", "2024-01-02", "20240102", "2024-01", "2024-01-02T10:20:30Z", "20240102T102030"),
    *("2024-0102", "202401-02", "2024-01-02T10:2030", "2024-01-02T24:00", "2024-01-02T24:30"),
)
compiler = compiler_of(VOCABULARY)


def patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["a", "b", "1", "[ab]", r"\d", r"\1", r"\1", r"\2", "(a|b)", "(a?)"])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("({}|{})".format, inner, inner),
            st.builds("({}{})".format, st.sampled_from(["", "?:", "?=", "?!"]), inner),
            st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "?", "{2}", "{0,2}", "*?"])),
        )

    parts = st.recursive(atoms, grown, max_leaves=5)
    made = st.builds("{}{}{}".format, st.sampled_from(["(b?1)", "(a|b)"]), parts, parts)
    return st.one_of(made, made.map("^(?:{})$".format))


@settings(max_examples=300)
@given(pattern=patterns())
def test_what_is_generated_matches_and_what_is_left_out_does_not(pattern: str) -> None:
    try:
        engine = re.compile(pattern)
        node = searched(pattern)
        inner, outer = automaton(node), automaton(node, outer=True)
    except (re.error, RegexError):
        return
    for text in TEXTS:
        found = engine.search(text) is not None
        assert found or not inner.matches(text), text
        assert outer.matches(text) or not found, text


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"^(a|b)1\1$", r"(a)(b)\2\1", r"^(a?)b\1$", r"^(?:([ab])\1)*$", r"^((a)|b)+1$|^(1)\3"),
        *(r"^(a)(?:1\1)*b?$", r"^([ab])(?:(?!\1).)*\1$", r"^(a{0,2}?)1\1$", r"(?=(a|b)\1).1?"),
        *(r"^(?P<x>[ab]1?)b(?P=x)", r"^((a|b)\2)1\1", r"^(?:(a)|b)1\1?$", r"(?i)(b)1(?P<y>A)\1\2"),
        *(r"^(?!(a|b)\1)[ab]*$", r"^([ab])?1\1$"),
        "^" + "".join(rf"(?:(a|b)\{number})?" for number in range(1, 21)) + "$",
    ],
)
def test_the_same_texts_match(pattern: str) -> None:
    found, engine = automaton(searched(pattern)), re.compile(pattern)
    for text in TEXTS:
        assert found.matches(text) == bool(engine.search(text)), text


def test_a_group_that_took_no_part_is_empty_in_some_dialect_alone() -> None:
    node = searched(r"^(a)?1\1b$")
    inner, outer = automaton(node), automaton(node, outer=True)
    assert [text for text in TEXTS if inner.matches(text)] == ["a1ab"]
    assert [text for text in TEXTS if outer.matches(text)] == ["1b", "a1ab"]
    node = searched(r"^(?!(?:(a)|b)1\1b)[ab1]+$")
    assert not automaton(node).matches("b1b")
    assert automaton(node, outer=True).matches("b1b")


def test_digits_of_other_scripts_come_twice_in_some_dialect() -> None:
    node = searched(r"^(\d)\1$")
    inner, outer = automaton(node), automaton(node, outer=True)
    assert inner.matches("11") and not inner.matches("12") and not inner.matches("٣٣")
    assert outer.matches("11") and not outer.matches("12") and outer.matches("٣٣")


def test_a_backslash_before_a_digit_refers_to_no_group() -> None:
    assert parse(r"([A-Z]):\\1") == parse(r"[A-Z]:\\1")
    assert parse(r"(a)\b\\k<x>") == parse(r"a\b\\k<x>")


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        (r"(a+)\1", "groups of more than 64 texts"),
        (r"(\w\w)\1", "groups of more than 64 texts"),
        (r"(a{300})\1", "or of long ones"),
        (r"(a|b)*\1", "a group inside a repetition"),
        (r"(?:\1?(a))*", "'1', which is no group before it"),
        (r"(?:(?:(a)|b)\1)*", "a group of the repetition around that is not before it"),
        (r"(?=(a|ab))\1", "a group inside a lookahead"),
        (r"(?<=(a)\1)b", "a group inside a lookahead or lookbehind"),
        (r"(a)?\1", "may take no part"),
        (r"\1(a)", "'1', which is no group before it"),
        (r"(a\1)", "'1', which is no group before it"),
        (r"(a)\10", "'10', which is no group before it"),
        (r"(a)\k<x>", "'x', which is no group before it"),
        (r"(?<x>a)|(?<x>b)\k<x>", "'x', which is no group before it"),
        (r"(a)[\1]", "an octal escape"),
        ("".join(f"([ab]{{5}}{i})" for i in range(9)) + r"\9\8\7\6\5\4\3\2\1", "groups of more"),
        (r"(?:([ab]{5})" * 6 + "x" + r"\6)\5)\4)\3)\2)\1)", "groups in too many places"),
    ],
)
def test_other_backreferences_are_refused_by_name(pattern: str, feature: str) -> None:
    with (
        pytest.raises(UnsupportedRegex, match=feature),
        Budget(GuideConfig().max_schema_steps).counting(),
    ):
        parse(pattern)


def test_dates_are_written_in_one_way(compiler: GrammarCompiler) -> None:
    for schema, is_right in (({"pattern": DATE}, True), ({"not": {"pattern": DATE}}, False)):
        grammar = compiler.compile(Guide(json_schema={"type": "string", **schema}))
        for text in DATES:
            expected = (re.search(DATE, text) is not None) == is_right
            assert takes(grammar, f'"{text}"') == expected, text
