"""Calls of many tools, whose arguments are compiled as they begin: as if all were compiled at
once."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from call_messages import (
    ANSWER,
    END,
    ENDS,
    FORMATS,
    LIMITS,
    MARKS,
    NAMED,
    NAMES,
    OF_LISTED,
    PIECES,
    PLAIN,
    TOOLS,
    VOCABULARY,
    asked,
    compiler,
    is_deferred,
    random_message,
    row_of,
    spelt,
)

from specguide import native
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided import select
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling import libraries
from specguide.guided.compiling.libraries import Libraries
from specguide.guided.matcher import Matcher
from specguide.guided.tools import Tool
from specguide.guided.tools.call_starts import parts_of


def at_once(guide: Guide) -> Guide:
    """The same grammar, of which nothing is left out."""
    return replace(guide, calls=None)


def matchers(guide: Guide) -> tuple[Matcher, Matcher]:
    """A matcher of the grammar with the arguments left out, and one of the whole grammar."""
    deferred, whole = compiler().compile(guide), compiler().compile(at_once(guide))
    assert is_deferred(deferred) and not is_deferred(whole)
    return deferred.matcher(), whole.matcher()


WAYS = [{}, {"must_call": True}, {"is_parallel": False}, {"answer": ANSWER}]


ODD = {"properties": {"a(": {"type": "integer"}}}
SPACED = {"properties": {", ": {"type": "string"}}}
MARKED = {"properties": {"a": {"enum": ["<![CDATA[", "b"]}}}
WAYS_OF = [(name, way) for name in FORMATS for way in range(len(WAYS))]
WAYS_OF.remove(("llama3_json", 3))  # its answer begins as a call: both are one tag


@pytest.mark.parametrize(("name", "way"), WAYS_OF)
def test_rows_are_those_of_all_compiled_at_once(name, way):
    """Rows are compared along random walks that go back now and then."""
    walk(random.Random(f"{name} {way}"), asked(name, **WAYS[way]), num_steps=200)


def walk(choose: random.Random, guide: Guide, num_steps: int) -> None:
    """Walk at random, as a rule by what calls consist of."""
    deferred, whole = matchers(guide)
    num_taken = 0
    for _ in range(num_steps):
        allowed = row_of(whole)
        assert np.array_equal(row_of(deferred), allowed), num_taken
        likely = [token for token in allowed if token != END and (token >= 256 or token in ENDS)]
        token = int(choose.choice(likely if likely and choose.random() < 0.9 else allowed))
        assert deferred.accept(token)
        assert whole.accept(token)
        num_taken += 1
        if deferred.is_terminated or choose.random() < 0.1:
            back = choose.randint(1, min(num_taken, choose.choice((1, 4, 40))))
            deferred.rollback(back)
            whole.rollback(back)
            num_taken -= back
        assert deferred.is_terminated == whole.is_terminated


@pytest.mark.parametrize(("name", "way"), WAYS_OF)
def test_rows_along_messages_are_those_of_all_compiled_at_once(name, way):
    """Tokens reach from names into arguments, and texts look like what begins calls."""
    choose = random.Random(f"{name} {way}")
    guide = asked(name, **WAYS[way])
    for _ in range(3):
        deferred, whole = matchers(guide)
        tokens = [*spelt(random_message(name, choose, **WAYS[way]), choose), END]
        for num_taken, token in enumerate(tokens):
            assert np.array_equal(row_of(deferred), row_of(whole)), tokens[:num_taken]
            is_taken = deferred.accept(token)
            assert is_taken == whole.accept(token)
            if not is_taken:
                break
            if choose.random() < 0.1:
                back = choose.randint(1, num_taken + 1)
                for matcher in (deferred, whole):
                    matcher.rollback(back)
                    assert all(map(matcher.accept, tokens[num_taken + 1 - back : num_taken + 1]))


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_rows_where_all_arguments_are_objects(way):
    """Behind a tool's name nothing but an object can follow then."""
    tools = [Tool(one.name, NAMED if "enum" in one.parameters else PLAIN) for one in TOOLS]
    guide = asked("functionary_v32", tools, **WAYS[way])
    assert guide.calls["after"] == b"{".hex()
    walk(random.Random(way), guide, num_steps=200)


@pytest.mark.parametrize("name", OF_LISTED)
def test_messages_of_listed_arguments_are_taken(name):
    """Texts may hold what begins a call, but for the special token."""
    one = FORMATS[name]
    guide = asked(name)
    begun = (
        "".join(part for part in parts_of(text, MARKS) if part not in MARKS)
        for text in (one.before_name, one.before_arguments)
    )
    texts = ("x", NAMES[1].join(begun))
    good = (json.dumps({"a": texts[1], "b": [1]}), "{}", '{"a":3}', '{"name":"we"}')
    bad = ('{"b":[1]}', '{"a":"x"}', '{"a":2}', '{"arguments":{}}')
    order = (0, 2, 0, 3, 1, 2, 3)
    fitting = [i for i in order if NAMES[i] != "weather"]
    for first in fitting:
        calls = [(NAMES[i], good[i]) for i in (first, *fitting)]
        for matcher in matchers(guide):
            tokens = [*spelt(one.message(calls, lead="so ")), END]
            assert all(map(matcher.accept, tokens))
            assert matcher.is_terminated
            matcher.rollback(len(tokens))
            assert all(map(matcher.accept, tokens))
        for matcher in matchers(guide):
            wrong = spelt(one.message([*calls, (NAMES[first], bad[first])]))
            assert not all(map(matcher.accept, wrong))


def test_no_literal_has_what_texts_are_told_by():
    """Else what follows would be taken for a part of a text."""
    one, text = FORMATS["minicpm5"], '</param><param name="a"><![CDATA['
    for inside, is_fine in ((text[:-1], True), (text, False)):
        first = "tool_1", json.dumps({"arguments": {"a": inside}})
        tokens = [*spelt(one.message([first, ("weather", '{"a": 1}')])), END]
        for matcher in matchers(asked("minicpm5")):
            assert all(map(matcher.accept, tokens)) == is_fine


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in OF_LISTED])
def test_messages_are_taken(name):
    one = FORMATS[name]
    good = ('{"a":"} \\" {","b":[1]}', '{"a":"]"}', '{"a":3}', '{"name":"we","arguments":{"a":""}}')
    bad = ('{"b":[1]}', '{"a":"x"}', '{"a":2}', '{"arguments":{}}')
    guide = asked(name)
    for first, arguments in enumerate(good):
        calls = [(NAMES[first], arguments)]
        if one.separator is not None:
            calls += [(NAMES[(first + i) % 4], good[(first + i) % 4]) for i in (1, 2, 3, 4)]
        for matcher in matchers(guide):
            tokens = [*spelt(one.message(calls, lead="so ")), END]
            assert all(map(matcher.accept, tokens))
            assert matcher.is_terminated
            matcher.rollback(len(tokens))
            assert all(map(matcher.accept, tokens))
        for matcher in matchers(guide):
            wrong = spelt(one.message([(NAMES[first], bad[first])]))
            assert not all(map(matcher.accept, wrong))


def test_only_what_is_entered_is_compiled():
    one = GrammarCompiler(VOCABULARY, LIMITS)
    grammar = one.compile(asked("hermes"))
    matcher = grammar.matcher()
    assert len(one.cache) == 1
    opening = spelt(FORMATS["hermes"].opening + "weather")
    assert all(map(matcher.accept, opening))
    assert len(one.cache) == 1
    assert matcher.accept(ord('"'))
    assert len(one.cache) == 2
    matcher.rollback(1)
    assert matcher.accept(ord('"'))
    assert all(map(grammar.matcher().accept, [*opening, ord('"')]))
    assert len(one.cache) == 2
    one.close()


def test_parts_are_not_checked_anew_and_their_ends_not_looked_for(monkeypatch):
    """Both were, with the message: that took half of the time till their first row."""
    one = GrammarCompiler(VOCABULARY, LIMITS)
    matcher = one.compile(asked("hermes")).matcher()
    opening = spelt(FORMATS["hermes"].opening + "weather")
    assert all(map(matcher.accept, opening))
    monkeypatch.setattr(select, "_check_grammar", None)
    monkeypatch.setattr(libraries, "check_limits", None)
    monkeypatch.setattr(Libraries, "_outline", None)
    assert matcher.accept(ord('"'))
    one.close()


def test_forced_tokens_go_on_into_the_arguments():
    deferred, whole = matchers(asked("hermes", must_call=True))
    opening = spelt(FORMATS["hermes"].opening + 'tool_1"')
    for matcher in (deferred, whole):
        assert all(map(matcher.accept, opening))
    assert deferred.forced_tokens() == whole.forced_tokens() != []
    assert np.array_equal(row_of(deferred), row_of(whole))


def test_a_part_that_cannot_be_compiled_names_its_tool():
    one = GrammarCompiler(VOCABULARY, LIMITS)
    matcher = one.compile(asked("hermes")).matcher()
    opening = spelt(FORMATS["hermes"].opening + "weather")
    assert all(map(matcher.accept, opening))
    one.close()
    with pytest.raises(RuntimeError, match=r"the arguments of the tool 'weather' cannot be"):
        matcher.accept(ord('"'))
    assert matcher.accept(ord("."))  # as if it had not been asked


def test_what_cannot_be_enforced_is_refused_at_once():
    tools = [*TOOLS[:-1], Tool("last", {"type": "object", "$ref": "#nothing"})]
    with pytest.raises(InvalidGuide, match="points to nothing"):
        compiler().compile(asked("hermes", tools))


@pytest.mark.parametrize(
    ("name", "tools", "more"),
    [
        ("hermes", TOOLS[:-1], {}),  # few
        ("hermes", [*TOOLS[:-1], Tool('we"', PLAIN)], {}),  # a name with what ends names
        ("hermes", [*TOOLS[:-1], Tool("we", PLAIN)], {}),  # twice the same
        ("hermes", TOOLS, {"key_order": "any"}),
        ("functionary_v32", [*TOOLS[:-1], Tool("all", PLAIN)], {}),  # the name that text has
        ("llama4_pythonic", [Tool(f"t{i}", ODD) for i in range(40)], {}),  # a bracket in a name
        ("minicpm5", [Tool(f"t{i}", SPACED) for i in range(40)], {}),  # a name as JSON goes on
        ("minicpm5", [Tool(f"t{i}", MARKED) for i in range(40)], {}),  # a text as CDATA begins
    ],
)
def test_other_messages_are_compiled_at_once(name, tools, more):
    assert asked(name, tools, **more).calls is None


def test_a_token_that_reaches_into_arguments_is_judged_by_these():
    deferred, whole = matchers(asked("hermes"))
    into = 256 + PIECES.index('er", "arguments": {"a')
    for name, is_taken in (("weath", True), ("oth", False)):
        tokens = spelt(FORMATS["hermes"].opening + name)
        for matcher in (deferred, whole):
            assert all(map(matcher.accept, tokens))
            assert (into in row_of(matcher)) == matcher.accept(into) == is_taken
            matcher.rollback(len(tokens) + is_taken)


def test_compiled_in_a_process_apart():
    one = GrammarCompiler(VOCABULARY, replace(LIMITS, isolate_compiles=True))
    grammar = one.compile(asked("hermes", must_call=True))
    assert is_deferred(grammar)
    matcher = grammar.matcher()
    message = FORMATS["hermes"].message([("weather", '{"a":"]"}')])
    assert all(map(matcher.accept, [*spelt(message), END]))
    one.close()


def test_a_matcher_needs_calls_that_there_are():
    with pytest.raises(ValueError, match="out of range"):
        native.Calls(
            before=[b"x"],
            names=[(b"a", 1)],
            gate=b"",
            lead=b"",
            arguments=native.CallArguments.JSON,
            has_part=[True],
            vocabulary=native.NativeVocabulary([b"a", b""], [1]),
            reaching=[],
            part=lambda tool, before: None,
        )
