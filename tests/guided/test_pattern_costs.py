"""Owns the tests of what a compile need not do with patterns: what is not used, or is known
already."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from byte_vocabulary import VOCABULARY
from lowered_schemas import written

from specguide.config import GuideConfig
from specguide.errors import GuideLimitExceeded
from specguide.guide import Guide
from specguide.guided.budget import Budget
from specguide.guided.compiling.libraries import Libraries
from specguide.guided.regex import automaton as automata
from specguide.guided.regex import both, edges, letters, nfa
from specguide.guided.regex import whole as whole_texts
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.charset import JSON_TEXT
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import NOTHING, Both, UnsupportedRegex
from specguide.guided.regex.whole import searched, whole
from specguide.guided.schema.core import patterns
from specguide.guided.schema.core.other_words import pattern_beside
from specguide.guided.schema.core.pattern_text import write_pattern
from specguide.guided.schema.merging import pattern_sets
from specguide.guided.select import rewrites


def test_a_text_is_matched_once_by_a_pattern(monkeypatch):
    matched = []
    look = nfa.TextMatcher._matches

    def found_to_match(self, text):
        matched.append(text)
        return look(self, text)

    monkeypatch.setattr(nfa.TextMatcher, "_matches", found_to_match)
    with Budget(GuideConfig().max_schema_steps).counting():
        assert [patterns.pattern_matches("^a+$", "aaa") for _ in range(3)] == [True] * 3
    assert matched == ["aaa"]


def test_how_many_names_a_pattern_has_is_told_once(monkeypatch):
    asked = []
    is_endless = patterns.is_endless
    monkeypatch.setattr(patterns, "is_endless", lambda node: asked.append(node) or is_endless(node))
    closed = {"patternProperties": {"^[ab]+$": {}}, "additionalProperties": False}
    merged = {name: {"allOf": [closed, {"required": [name]}]} for name in "abc"}
    written({"properties": merged})
    assert asked
    assert len(asked) == len(set(asked))


def test_whether_a_text_is_another_word_needs_no_automaton(monkeypatch):
    words = frozenset(("ab", "abc", "\u00e9"))
    with Budget(GuideConfig().max_schema_steps).counting():
        pattern = pattern_beside(words, JSON_TEXT)
        made = []
        monkeypatch.setattr(nfa, "TextMatcher", made.append)
        for text in (*words, "", "a", "abcd", "b", "\u00e9\u00e9", "a\u0001", "\ud800"):
            is_other = text not in words and text not in ("a\u0001", "\ud800")
            assert patterns.pattern_matches(pattern, text) == is_other
    assert not made
    for text in (*words, "", "a", "abcd", "b", "\u00e9\u00e9", "a\u0001"):
        is_other = text not in words and text != "a\u0001"
        assert automaton(searched(pattern)).matches(text) == is_other


def test_patterns_that_share_no_name_are_compared_once(monkeypatch):
    compared = []
    monkeypatch.setattr(Automaton, "less", lambda *pair: compared.append(pair))
    texts = ["^a[0-9]$", "^b[0-9]$", "^c[0-9]$"]
    found = pattern_sets.Patterns().cells(texts, [], lambda _: True)
    assert found == [(text, frozenset({text})) for text in texts]
    assert not compared


def test_what_a_pattern_has_beside_its_part_is_not_looked_for(monkeypatch):
    compared = []
    without = Automaton.less
    monkeypatch.setattr(Automaton, "less", lambda *pair: compared.append(pair) or without(*pair))
    found = pattern_sets.Patterns().cells(["^a", "^ab", "^abc"], [], lambda _: True)
    assert [matched for _, matched in found] == [
        frozenset({"^a", "^ab", "^abc"}),
        frozenset({"^a", "^ab"}),
        frozenset({"^a"}),
    ]
    assert len(compared) == 2


def test_cells_without_a_text_are_none_also_where_automata_are_too_large(monkeypatch):
    monkeypatch.setattr(pattern_sets, "MAX_WORK", 0)
    found = pattern_sets.Patterns().cells(["^a", "^ab"], ["a"], lambda _: True)
    assert [key for _, key in found] == [frozenset(["^a"]), frozenset(["^a", "^ab"])]


def test_patterns_that_were_cut_apart_are_not_compared_again(monkeypatch):
    compared = []
    monkeypatch.setattr(patterns, "_have_sample", lambda *pair: compared.append(pair))
    overlapping = [{"patternProperties": {one: {}}} for one in ("^a", "b$")]
    assert "&" in written({"type": "object", "allOf": overlapping})
    assert not compared


def test_one_pattern_that_matches_no_name_needs_no_automaton(monkeypatch):
    made = []
    monkeypatch.setattr(patterns, "automaton", made.append)
    cells = pattern_sets.Patterns().cells(["^x-"], ["name", "x"], lambda _: True)
    assert cells == [("^x-", frozenset({"^x-"}))]
    assert not pattern_sets.Patterns().cells(["^x-"], [], lambda _: False)
    assert not made


def test_patterns_that_ends_need_are_not_read_again(monkeypatch):
    read = []
    make = automata._of_tree
    monkeypatch.setattr(
        automata, "_of_tree", lambda node, *others: read.append(node) or make(node, *others)
    )
    names = {"^a+$": {"type": "string"}, "^a*b": {"minLength": 2}}
    schema = {"type": "object", "patternProperties": names, "properties": {"ab": {}}}
    libraries = Libraries(VOCABULARY, GuideConfig())
    libraries.first_enforcing(Guide(json_schema=schema), "llguidance", lambda _: None)
    assert read
    assert len(read) == len(set(read))


def test_names_that_may_not_come_are_not_written(monkeypatch):
    texts = []
    text_of = pattern_sets.Patterns._cell_text

    def cell_text(self, cell, matched, *others):
        texts.append(matched)
        return text_of(self, cell, matched, *others)

    monkeypatch.setattr(pattern_sets.Patterns, "_cell_text", cell_text)
    closed = [{"patternProperties": {one: {}}, "additionalProperties": False} for one in "abcd"]
    written({"type": "object", "allOf": closed})
    assert texts
    assert {len(one) for one in texts} == {4}


def test_the_automaton_of_a_tree_is_made_once(monkeypatch):
    asked = []
    make = automata._of_tree

    def of_tree(node, *others):
        asked.append(node)
        return make(node, *others)

    monkeypatch.setattr(automata, "_of_tree", of_tree)
    with Budget(100_000).counting():
        found = [patterns.pattern_automaton("^a+$"), automaton(searched("^a+$"))]
        assert found[0] is found[1]
        for _ in range(3):
            with pytest.raises(UnsupportedRegex, match="states"):
                automaton(searched("^a{500}$"))
    assert asked == [searched("^a+$"), searched("^a{500}$")]


def test_it_is_looked_once_where_states_of_several_patterns_lead(monkeypatch):
    asked = []
    look = letters.SideBySide.after

    def after(self, states):
        asked.append(states)
        return look(self, states)

    monkeypatch.setattr(letters.SideBySide, "after", after)
    with Budget(100_000).counting():
        assert not patterns.have_common_text(("^a*[bc]*b$", "^a*[bc]*c$"), 100, 200)
    assert len(asked) == len(set(asked)) > 1


def test_all_strings_but_some_words_need_no_group_around_a_single_beginning():
    assert "(?:ab)" not in pattern_beside(frozenset(("abc", "x")), JSON_TEXT)


def test_a_pattern_that_was_written_is_not_read_again(monkeypatch):
    read = []

    def reading(pattern):
        read.append(pattern)
        return parse(pattern)

    monkeypatch.setattr(whole_texts, "parse", reading)
    with Budget(10_000).counting():
        text = write_pattern(searched("^a[bc]*"), JSON_TEXT)
        assert text is not None
        again = searched(text)
        assert read == ["^a[bc]*"]
    assert automaton(again) == automaton(whole(parse(text), search=True))


def test_patterns_that_were_written_side_by_side_are_not_read_again(monkeypatch):
    long = "|".join(f"{number:0400}" for number in range(20))
    read = []

    def reading(pattern):
        read.append(pattern)
        return parse(pattern)

    monkeypatch.setattr(whole_texts, "parse", reading)
    with Budget(1_000_000).counting():
        asked = searched(f"^(?=[0-9]*$)(?!0*1$)(?:{long})$")
        assert isinstance(asked, Both)
        text = write_pattern(asked, JSON_TEXT)
        assert text is not None
        assert isinstance(searched(text), Both)
        assert patterns.pattern_matches(text, f"{7:0400}")
        assert not patterns.pattern_matches(text, f"{1:0400}")
        assert len(read) == 1


def test_a_format_is_not_read_again_for_the_next_schema(monkeypatch):
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "format": "uri"}}
    libraries = Libraries(VOCABULARY, GuideConfig())
    guide = Guide(json_schema=schema)
    libraries.first_enforcing(guide, "llguidance", lambda _: None)
    monkeypatch.setattr(whole_texts, "parse", lambda pattern: pytest.fail(f"{pattern} is read"))
    libraries.first_enforcing(guide, "llguidance", lambda _: None)


def test_names_that_stand_in_patterns_are_not_compared_with_each_other():
    """As of messages of protocol buffers, each of whose fields has two names."""
    fields = {f"field_{number}": {"type": "integer", "minimum": number} for number in range(250)}
    schema = {
        "properties": {name.replace("_", ""): child for name, child in fields.items()},
        "patternProperties": {f"^({name})$": child for name, child in fields.items()},
        "additionalProperties": False,
    }
    with Budget(300_000).counting():
        assert next(rewrites(Guide(json_schema=schema), "llguidance"))


def test_a_property_that_a_pattern_names_fits_both():
    schema = {
        "properties": {"a": {"minimum": 3}, "b": {"type": "null"}},
        "patternProperties": {"^[ab]$": {"type": ["integer", "null"]}, "^c$": {"const": 1}},
        "additionalProperties": False,
    }
    grammar = Libraries(VOCABULARY, GuideConfig()).first_enforcing(
        Guide(json_schema=schema), "auto", lambda _: None
    )
    for text, is_right in (
        ('{"a":3,"b":null,"c":1}', True),
        ('{"a":2}', False),
        ('{"a":3.5}', False),
        ('{"b":4}', False),
        ('{"c":2}', False),
        ('{"d":1}', False),
    ):
        matcher = grammar.grammar.matcher()
        assert all(map(matcher.accept, text.encode())) == is_right, text


def test_choices_of_lookaheads_in_a_row_are_read_in_few_steps():
    with Budget(1_000_000).counting():
        assert whole(parse("a" + "(?:(?!b)|x)" * 100), search=True) != NOTHING


def test_lookaheads_with_boundaries_in_a_row_are_refused_soon(monkeypatch):
    edged = []
    look = edges._edged
    monkeypatch.setattr(edges, "_edged", lambda *args, **kw: edged.append(1) or look(*args, **kw))
    with pytest.raises(GuideLimitExceeded), Budget(1_000_000).counting():
        whole(parse("a" + r"(?!\bx)" * 200), search=True)
    assert len(edged) < 200_000


@pytest.mark.parametrize(("pattern", "num_made"), [("^a+b{2,3}$", 1), ("^a{0,40}$", 3)])
def test_an_automaton_that_is_right_for_a_text_is_not_made_again(monkeypatch, pattern, num_made):
    made = []
    make = nfa.Nfa.__init__
    monkeypatch.setattr(
        nfa.Nfa, "__init__", lambda *args, **kw: made.append(1) or make(*args, **kw)
    )
    with Budget(100_000).counting():
        for text in ("abb", "a" * 20, "a" * 40 + "bb", "a" * 41, "abbb"):
            assert patterns.pattern_matches(pattern, text) == bool(re.search(pattern, text))
    assert len(made) == num_made


def test_patterns_that_begin_differently_are_told_apart_by_that(monkeypatch):
    monkeypatch.setattr(both, "match_one_text", lambda items: pytest.fail(f"{items} are searched"))
    texts = ["^u?int(8|16|24)?$", "^address$", r"^bool(\[[0-9]*\])*$", "^$"]
    with Budget(1_000).counting():
        for one, other in combinations(map(searched, texts), 2):
            assert both.share_no_text(one, other)
        assert both.outermost(searched(texts[0])) is both.outermost(searched(texts[0]))
