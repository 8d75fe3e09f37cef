"""Patterns that are refused, by name, and texts that are none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from byte_vocabulary import VOCABULARY
from hypothesis import given, settings
from hypothesis import strategies as st
from one_compiler import compiler_of

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.regex.charset import JSON_TEXT
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import NOTHING, RegexError, UnsupportedRegex
from specguide.guided.regex.whole import whole
from specguide.guided.regex.writer import restrict, write

compiler = compiler_of(VOCABULARY)


def test_a_schema_with_lookaheads_that_cannot_be_merged_is_refused_for_that(compiler):
    ways = [{"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"minLength": 2}}}]
    choices = [json.loads(json.dumps({"anyOf": ways}).replace('"a"', f'"a{i}"')) for i in range(14)]
    named = {"k": {"pattern": r"^(?=[\s\S]{1,512}$)([a-z]+|\{%[\s\S]+?%\})$"}}
    schema = {"type": "object", "properties": named, "allOf": choices}
    with pytest.raises(UnsupportedGuide, match="llguidance: the schema spells out to more than"):
        compiler.compile(Guide(json_schema=schema))


@pytest.mark.parametrize("pattern", ["[]a]", "[^]]", "[]"])
def test_a_bracket_first_in_a_class_needs_a_backslash(pattern: str) -> None:
    with pytest.raises(RegexError, match=r"empty character class \(write \\\] for the bracket\)"):
        parse(pattern)


@pytest.mark.parametrize("pattern", ["(?s){0}a", "(a)(?i)*b"])
def test_a_flag_cannot_be_repeated(pattern: str) -> None:
    with pytest.raises(RegexError, match="a flag, which cannot be repeated"):
        parse(pattern)


REFUSED = (
    ("^(?:b(?=ba))*$", "lookahead or lookbehind inside a repetition"),
    ("^(?:b(?!ba))*a*$", "lookahead or lookbehind inside a repetition"),
    ("^([ab](?!a|bb))*..$", "lookahead or lookbehind inside a repetition"),
    ("^(?:a(?<!aa))+$", "lookahead or lookbehind inside a repetition"),
    ("b(?=.*c)a(?<!ba).*", "lookbehind behind a lookahead"),
    ("b(?=a?(?<=bb)a)", "a lookahead that asks of what is before it"),
    ("b(?<=(?=b1)b).", "a lookbehind of what is behind it"),
    ("a+(?=.*b{300}).*c{300}.*", "a lookahead makes the regular expression too long"),
    (r"(?<x>a+)\k<x>", "backreference"),
    (r"^(a\b-?)+b", "lookahead or lookbehind inside a repetition"),
    (r"\Ba", "without a word boundary"),
    (r"a\b?", "repeated anchor"),
    ("(?m)a", "flag other than i and s"),
    ("(?im:a)", "flag other than i and s"),
    ("(?-i:a)", "flag other than i and s"),
    ("a*+", "possessive"),
    ("(?>a)", "atomic"),
    (r"\pL", "Unicode property without braces"),
    (r"\p{Letters}", "'Letters', which is no general category"),
    (r"\p{Script=Klingon}", "Unicode property 'Script=Klingon'"),
    (r"\p{L", "Unicode property 'L'"),
    ("a^b", "anchor inside"),
    ("(a$)+b", "anchor"),
    (r"\Ga", "differently"),
    (r"\07", "octal"),
    ("a{,3}", "lower bound"),
    ("(?#x)a", "comment"),
    ("a{1000000}", "repetitions"),
    ("^*", "anchor"),
    ("[[:alpha:]]+", r"POSIX class \[:alpha:\], which engines read differently"),
    ("[a[:^xdigit:]]", "POSIX class"),
    ("[a-z&&[^b]]", "intersection"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?=^[^./~])(^((?!\.{2}).)*$).*$",
        "a*^b",
        "(a$|b)c?",
        "a?(^b|c)$",
        "[ab]*^c?(b$)a{0,2}$",
        "(^|,)a(,|$).*$",
    ],
)
def test_nothing_stands_beyond_an_anchor(pattern: str, compiler: GrammarCompiler) -> None:
    for schema, is_right in (({"pattern": pattern}, True), ({"not": {"pattern": pattern}}, False)):
        grammar = compiler.compile(Guide(json_schema={"type": "string", **schema}))
        for text in ("", "a", "b", "c", "ab", "bc", "ac", "cb", "a.b", "a..b", "./a", ",a", "a,b"):
            matcher = grammar.matcher()
            taken = all(map(matcher.accept, f'"{text}"'.encode()))
            assert taken == ((re.search(pattern, text) is not None) == is_right), text


@pytest.mark.parametrize(("pattern", "feature"), REFUSED)
def test_what_no_backend_enforces_is_refused_by_name(compiler, pattern, feature):
    with pytest.raises(UnsupportedGuide, match=feature):
        compiler.compile(Guide(regex=pattern))
    with pytest.raises(UnsupportedGuide, match=feature) as refusal:
        compiler.compile(Guide(json_schema={"properties": {"a": {"pattern": f"x|{pattern}"}}}))
    assert (refusal.value.keyword, refusal.value.path) == ("pattern", "/properties/a/pattern")


def test_a_word_boundary_behind_too_many_ways_is_refused() -> None:
    with pytest.raises(UnsupportedRegex, match="a lookahead makes the regular expression too long"):
        whole(parse(r"(]|A(?:\S--|){2,})\b"), search=True)


@pytest.mark.parametrize(
    "pattern", ["(", "a)", "[a", "[z-a]", "*a", "a**", "a{2,1}", "\\", r"\x0", r"\u{110000}", "[]"]
)
def test_a_malformed_expression_is_refused(pattern: str, compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidGuide, match="regular expression") as refusal:
        compiler.compile(Guide(regex=pattern))
    assert not isinstance(refusal.value, UnsupportedGuide)


@settings(max_examples=200)
@given(text=st.text(st.sampled_from("ab(){}[]|*+?.^$\\-/,<>=!:1dwsbxu"), max_size=8))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        node = restrict(whole(parse(text), search=True), JSON_TEXT)
    except RegexError:
        return
    if node != NOTHING:
        re.compile(write(node))


def test_a_text_that_nobody_reads_is_refused_before_a_library_is_loaded() -> None:
    code = """
import sys
from byte_vocabulary import VOCABULARY
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

compiler = GrammarCompiler(VOCABULARY, GuideConfig())
try:
    compiler.compile(Guide(regex="a" * 70_000))
except UnsupportedGuide as error:
    assert "70000 characters, more than 65536, is too long" in str(error), error
assert not {"xgrammar", "llguidance"} & sys.modules.keys()
print("refused")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "refused\n", done.stderr


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": r"\W" * 1500},
        {"patternProperties": {r"\w" * 1500: {"type": "integer"}}},
        {"propertyNames": {"pattern": r"\W" * 1500}},
    ],
)
def test_a_pattern_that_is_too_long_once_written_is_refused(compiler, schema):
    with pytest.raises(UnsupportedGuide, match=r"[pP]attern|propertyNames"):
        compiler.compile(Guide(json_schema=schema))
