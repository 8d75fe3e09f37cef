"""Structural tags: their form, and that a backend takes just what they say, or refuses them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from byte_vocabulary import EOS, VOCABULARY, backend, takes
from grammar_backends import WHOLE
from hypothesis import given, note, settings
from hypothesis import strategies as st
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import EngineError, InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.backends.llguidance.greedy import check_greedy
from specguide.guided.compile import GrammarCompiler
from specguide.guided.matcher import Matcher
from specguide.guided.notations.tag_form import check_tag
from specguide.guided.select import rewrites

X = {"type": "const_string", "value": "x"}
NUMBER = {"type": "json_schema", "json_schema": {"type": "number"}}


def tag(format_: Any) -> Guide:
    return Guide(structural_tag={"type": "structural_tag", "format": format_})


compiler = compiler_of(VOCABULARY)


@pytest.mark.parametrize(
    ("format_", "where"),
    [
        ({"type": "tag", "begin": "<", "content": X, "end": []}, "format.end"),
        ({"type": "tag", "begin": "<", "content": X, "end": ["x", 3]}, "format.end.1"),
        (
            {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": [["x"]]},
            "format.end.0",
        ),
        (
            {"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": [{}]},
            "format.end.0",
        ),
        ({"type": "tag", "begin": 3, "content": X, "end": ">"}, "format.begin"),
        ({"type": "tag", "begin": "<", "content": [], "end": ">"}, "format.content"),
        (
            {"type": "tag", "begin": "<", "content": X, "end": {"type": "token", "token": [1]}},
            "format.end.token",
        ),
        ({"type": "tag", "begin": "<", "content": X, "end": ">", "ends": ">"}, "format.ends"),
        (
            {
                "type": "triggered_tags",
                "triggers": [3],
                "tags": [{"begin": "<", "content": X, "end": ">"}],
            },
            "format.triggers.0",
        ),
        ({"type": "triggered_tags", "triggers": ["<"], "tags": [3]}, "format.tags.0"),
        ({"type": "triggered_tags", "triggers": ["<"], "tags": []}, "format.tags"),
        (
            {
                "type": "triggered_tags",
                "triggers": ["<"],
                "tags": [{"begin": "[", "content": X, "end": ""}],
            },
            "no trigger",
        ),
        (
            {
                "type": "tags_with_separator",
                "tags": [{"begin": "<", "content": X}],
                "separator": ",",
            },
            "format.tags.0.end",
        ),
        (
            {"type": "or", "elements": [{"type": "regex", "pattern": 3}]},
            "format.elements.0.pattern",
        ),
        ({"type": "sequence", "elements": []}, "format.elements"),
        ({"type": "repeat", "min": True, "max": 2, "content": X}, "format.min"),
        ({"type": "repeat", "min": 3, "max": 2, "content": X}, "max (2) is less than min (3)"),
        ({**NUMBER, "max_whitespace_cnt": "3"}, "format.max_whitespace_cnt"),
        ({**NUMBER, "max_whitespace_cnt": 10**9}, "format.max_whitespace_cnt"),
        ({"type": "json_schema", "json_schema": 3}, "format.json_schema"),
        ({"type": "any_text", "excludes": "ab"}, "format.excludes"),
        ({"type": "dispatch", "rules": [["a"]]}, "format.rules.0.1"),
        ({"type": ["tag"]}, "format"),
        ({"type": "no-such"}, "no-such"),
        ({}, "format"),
        ([], "format"),
        (None, "format"),
    ],
)
def test_a_malformed_tag_is_refused_by_the_name_of_the_field(
    compiler: GrammarCompiler, format_: Any, where: str
) -> None:
    with pytest.raises(InvalidGuide, match="structural_tag is malformed") as caught:
        compiler.compile(tag(format_))
    assert where in str(caught.value) and caught.value.param == "structural_tag"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "x", "tag", "any_text"]),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
_FIELDS = st.sampled_from(
    ["type", "begin", "end", "content", "elements", "triggers", "tags", "json_schema", "value"]
)


@settings(max_examples=60, deadline=None)
@given(st.recursive(_JSON, lambda inner: st.dictionaries(_FIELDS, inner, max_size=4), max_leaves=8))
def test_no_tag_is_a_fault_of_the_engine(compiler: GrammarCompiler, format_: Any) -> None:
    try:
        compiler.compile(tag(format_))
    except EngineError as error:
        pytest.fail(str(error))
    except InvalidGuide:
        pass


@pytest.mark.parametrize(
    ("format_", "taken", "refused"),
    [
        (
            {"type": "tag", "begin": "BEG", "content": NUMBER, "end": "END"},
            ["BEG12345END", "BEG1e5END", "BEG0.5END"],
            ["BEG12345", "BEGEND", "BEG1eEND"],
        ),
        (
            {
                "type": "plus",
                "content": {"type": "tag", "begin": "1", "content": NUMBER, "end": ";"},
            },
            ["11;12;", "1-1;"],
            ["1;", "11"],
        ),
        (
            {
                "type": "sequence",
                "elements": [
                    {"type": "regex", "pattern": "[0-9]+"},
                    {"type": "regex", "pattern": "[0-9]x"},
                ],
            },
            ["12x", "1234x"],
            ["1x", "12"],
        ),
        (
            {
                "type": "sequence",
                "elements": [
                    {
                        "type": "or",
                        "elements": [
                            {"type": "const_string", "value": "a"},
                            {"type": "const_string", "value": "ab"},
                        ],
                    },
                    {"type": "const_string", "value": "b"},
                ],
            },
            ["ab", "abb"],
            ["a", "b", "abbb"],
        ),
        (
            {
                "type": "sequence",
                "elements": [
                    {"type": "star", "content": {"type": "const_string", "value": "a"}},
                    {"type": "const_string", "value": "ab"},
                ],
            },
            ["ab", "aaab"],
            ["aa", "b"],
        ),
        (
            {
                "type": "tag",
                "begin": "<",
                "content": {"type": "grammar", "grammar": "root ::= [a-z]+"},
                "end": "end",
            },
            ["<send", "<endend"],
            ["<end", "<s"],
        ),
    ],
)
def test_what_stands_behind_content_is_not_swallowed(
    compiler: GrammarCompiler, format_: Any, taken: list[str], refused: list[str]
) -> None:
    grammar = compiler.compile(tag(format_))
    for text in taken:
        assert takes(grammar, text), text
    for text in refused:
        assert not takes(grammar, text), text


def test_long_tags_are_checked_quickly() -> None:
    words = [{"type": "const_string", "value": f"a{number}b"} for number in range(15_000)]
    check_greedy({"type": "or", "elements": words})
    check_greedy({"type": "sequence", "elements": words})
    triggers = [f"<{number}>" for number in range(15_000)]
    tags = [{"begin": one, "content": {"type": "any_text"}, "end": "</>"} for one in triggers]
    triggered = {"type": "triggered_tags", "triggers": triggers, "tags": tags}
    started_s = time.process_time()
    check_tag({"type": "structural_tag", "format": triggered})
    check_greedy(triggered)
    assert time.process_time() - started_s < 4
    left_out = [
        {"type": "optional", "content": {"type": "const_string", "value": chr(500 + i)}}
        for i in range(5000)
    ]
    with pytest.raises(UnsupportedGuide, match="more than 64 optional formats"):
        check_greedy({"type": "sequence", "elements": left_out})


_BOOLEAN = {"type": "json_schema", "json_schema": {"type": "boolean"}}


@pytest.mark.parametrize(
    "format_",
    [
        {"type": "plus", "content": _BOOLEAN},
        {"type": "repeat", "content": _BOOLEAN, "min": 1, "max": 2},
        {"type": "or", "elements": [_BOOLEAN, NUMBER]},
        {"type": "sequence", "elements": [{"type": "optional", "content": _BOOLEAN}, _BOOLEAN]},
    ],
    ids=lambda format_: format_["type"],
)
def test_whitespace_where_schemas_meet(compiler: GrammarCompiler, format_: Any) -> None:
    """llguidance would let it in there."""
    with pytest.raises(UnsupportedGuide, match="JSON"):
        _compiled(tag(format_), "llguidance")
    grammar = compiler.compile(tag(format_))
    assert takes(grammar, "true") and not takes(grammar, " true") and not takes(grammar, "true ")


_LEAVES = st.sampled_from(
    [
        *({"type": "const_string", "value": text} for text in ("a", "ab", "b", "1", "1a", "E1")),
        *(
            {"type": "regex", "pattern": pattern}
            for pattern in ("a+", "a?b", "1*", "(?:a|ab)", "[ab]{1,2}")
        ),
        NUMBER,
        _BOOLEAN,
    ]
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    tags = st.builds(
        lambda begin, content, end: {"type": "tag", "begin": begin, "content": content, "end": end},
        st.sampled_from(["a", "ab", "1"]),
        inner,
        st.sampled_from(["", "a", "E", ["b", "ba"]]),
    )
    return st.one_of(
        tags,
        st.builds(
            lambda kind, content: {"type": kind, "content": content},
            st.sampled_from(["optional", "star", "plus"]),
            inner,
        ),
        st.builds(
            lambda kind, elements: {"type": kind, "elements": elements},
            st.sampled_from(["sequence", "or"]),
            several,
        ),
        st.builds(
            lambda found, separator: {
                "type": "tags_with_separator",
                "tags": found,
                "separator": separator,
            },
            st.lists(tags, min_size=1, max_size=2),
            st.sampled_from(["a", "b"]),
        ),
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.recursive(_LEAVES, _nested, max_leaves=5))
def test_both_backends_take_the_same_texts(format_: Any) -> None:
    """xgrammar reads character by character, and so says what llguidance should take, where that
    takes the tag."""
    try:
        one, other = (_compiled(tag(format_), name).matcher() for name in WHOLE)
    except InvalidGuide:
        return
    note(repr(format_))
    _check_alike(one, other, "", 6)


def _compiled(guide: Guide, name: str) -> CompiledGrammar:
    bound, limits = backend(name, True), GuideConfig()
    return bound.compile(bound.write(next(rewrites(guide, name)), limits), limits)


def _check_alike(left: Matcher, right: Matcher, text: str, depth: int) -> None:
    for char in "ab1Et ":
        taken = left.accept(ord(char))
        assert taken == right.accept(ord(char)), text + char
        if not taken:
            continue
        ended = left.accept(EOS)
        assert ended == right.accept(EOS), text + char
        for matcher in (left, right):
            matcher.rollback(int(ended))
        if depth > 1:
            _check_alike(left, right, text + char, depth - 1)
        for matcher in (left, right):
            matcher.rollback(1)
