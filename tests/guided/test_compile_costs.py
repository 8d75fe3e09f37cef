"""Owns the tests of what a compile need not do: what is not used, or is known already."""

from __future__ import annotations

import json
from itertools import islice, product
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY

from specguide import native
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import backend_spec
from specguide.guided.backends.llguidance import schema_rules
from specguide.guided.backends.llguidance.adapter import LLGuidanceBackend
from specguide.guided.backends.llguidance.lark import guide_to_lark
from specguide.guided.backends.llguidance.remainders import with_remainders
from specguide.guided.budget import Budget
from specguide.guided.compiling.libraries import Libraries
from specguide.guided.regex import minimal, nfa
from specguide.guided.regex import whole as whole_texts
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.charset import JSON_TEXT
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import ANY_CHAR, Repeat, UnsupportedRegex, of_length
from specguide.guided.regex.whole import searched, whole
from specguide.guided.schema import enforce, merge_members, patterns
from specguide.guided.schema.distinct import distinct_places
from specguide.guided.schema.names import nearest_names
from specguide.guided.schema.negation import positive
from specguide.guided.schema.nodes import CoreSchema, Kinds, Node, Numbers, Objects, objects, typed
from specguide.guided.schema.other_words import pattern_beside
from specguide.guided.schema.pattern_text import write_pattern
from specguide.guided.schema.prune import prune
from specguide.guided.schema_numbers import integer_numerals
from specguide.guided.select import rewrites


def written(schema: Any) -> str:
    """The first grammar of a schema."""
    with Budget(GuideConfig().max_schema_steps).counting():
        rewritten = next(rewrites(Guide(json_schema=schema), "llguidance"))
        return guide_to_lark(rewritten, GuideConfig())


def test_too_many_remainders_are_found_out_soon():
    numerals = automaton(integer_numerals(Numbers(minimum=1), 15))
    budget = Budget(GuideConfig().max_schema_steps)
    with budget.counting():
        assert with_remainders(numerals, 1320, 4_000, lambda rest: rest == 0) is None
    assert budget.spent < 10_000


def test_what_an_object_asks_of_its_own_properties_alone_is_found_once():
    found: list[Any] = []

    def conjoin(cores, path):
        found.append([*cores])
        return False not in found[-1]

    text, nothing, items = (typed("", name) for name in ("string", "null", "array"))
    base = Objects({"a": text, "b": nothing}, additional=False)
    named = merge_members.Members(conjoin).named
    assert named([base, Objects({"b": items})], ("a",), "") == {"a": True, "b": True}
    assert found == [[text], [nothing, items]]
    found.clear()
    other = Objects({"c": items})
    asked = {"a": True, "b": True, "c": False, "d": False}
    assert named([base, other], ("d",), "") == asked
    assert found == [[nothing], [False, items], [False]]
    found.clear()
    assert list(named([other, base], (), "")) == ["c", "a", "b"]
    assert found == [[items, False]]


def test_a_node_of_which_all_is_left_stays_itself_when_parts_without_instances_go():
    leaf = typed("", "string")
    whole = objects("", Objects({"a": leaf, "b": leaf}, required=("a",)))
    emptied = objects("", Objects({"a": leaf, "b": Node("", ref="none")}))
    root = objects("", Objects({"whole": whole, "emptied": emptied}))
    left = prune(CoreSchema(root, {"none": False})).root.kinds.objects.properties
    assert left["whole"] is whole
    assert left["emptied"].kinds.objects.properties == {"a": leaf, "b": False}


def test_a_name_that_many_objects_have_is_spelled_once(monkeypatch):
    spelled = []

    def text_literal(value):
        spelled.append(value)
        return json.dumps(json.dumps(value))

    monkeypatch.setattr(schema_rules, "text_literal", text_literal)
    options = [objects("", Objects({"name": typed("", name)})) for name in ("string", "null")]
    schema_rules.schema_rules(CoreSchema(Node("", any_of=tuple(options))), "")
    assert spelled == ["name"]


def test_states_that_nothing_leads_back_to_are_made_one_in_one_pass(monkeypatch):
    def divide(*_):
        raise AssertionError("blocks were divided")

    monkeypatch.setattr(minimal._Blocks, "divide", divide)
    found = automaton(parse("(?:ab|cb)?(?:d|e)|x[0-9]{3}"))
    assert len(found.rows) == 7
    assert all(map(found.matches, ("abd", "cbe", "d", "x012")))
    assert not any(map(found.matches, ("", "ab", "abde", "x01", "x0123")))


def test_few_tokens_are_kept_back_for_items_of_a_long_format():
    items = [{"enum": ["a", "b"]}, {"type": "string", "format": "uri"}]
    arrays = [{"type": "array", "uniqueItems": True, "items": one} for one in items]
    rewritten = next(rewrites(Guide(json_schema={"anyOf": arrays}), "llguidance"))
    assert 0 < max(place["spare"] for place in distinct_places(rewritten.value)) <= 100


def test_a_definition_is_one_place_of_distinct_items_however_often_it_is_referred_to():
    names = {name: {"$ref": "#/$defs/set"} for name in "abcdefgh"}
    distinct = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
    schema = {"type": "object", "properties": names, "$defs": {"set": distinct}}
    rewritten = next(rewrites(Guide(json_schema=schema), "llguidance"))
    assert len(distinct_places(rewritten.value)) == 2


def test_tokens_are_read_for_distinct_items_when_the_library_is_loaded(monkeypatch):
    read = []
    tokens = native.DistinctTokens
    monkeypatch.setattr(native, "DistinctTokens", lambda known: read.append(known) or tokens(known))
    libraries = Libraries(VOCABULARY, GuideConfig())
    libraries.load("llguidance")
    assert len(read) == 1
    guide = Guide(json_schema={"type": "array", "uniqueItems": True, "items": {"type": "string"}})
    libraries.first_enforcing(guide, "llguidance", lambda _: None)
    assert len(read) == 1


def test_a_text_is_matched_once_by_a_pattern(monkeypatch):
    matched = []
    look = nfa.TextMatcher._found_to_match

    def found_to_match(self, text):
        matched.append(text)
        return look(self, text)

    monkeypatch.setattr(nfa.TextMatcher, "_found_to_match", found_to_match)
    with Budget(GuideConfig().max_schema_steps).counting():
        assert [patterns.pattern_matches("^a+$", "aaa") for _ in range(3)] == [True] * 3
    assert matched == ["aaa"]


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
    monkeypatch.setattr(Automaton, "__sub__", lambda *pair: compared.append(pair))
    texts = ["^a[0-9]$", "^b[0-9]$", "^c[0-9]$"]
    found = patterns.Patterns().cells(texts, [], lambda _: True)
    assert found == [(text, frozenset({text})) for text in texts]
    assert not compared


def test_what_a_pattern_has_beside_its_part_is_not_looked_for(monkeypatch):
    compared = []
    without = Automaton.__sub__
    monkeypatch.setattr(Automaton, "__sub__", lambda *pair: compared.append(pair) or without(*pair))
    found = patterns.Patterns().cells(["^a", "^ab", "^abc"], [], lambda _: True)
    assert [matched for _, matched in found] == [
        frozenset({"^a", "^ab", "^abc"}),
        frozenset({"^a", "^ab"}),
        frozenset({"^a"}),
    ]
    assert len(compared) == 2


def test_patterns_that_were_cut_apart_are_not_compared_again(monkeypatch):
    compared = []
    monkeypatch.setattr(patterns, "_have_sample", lambda *pair: compared.append(pair))
    overlapping = [{"patternProperties": {one: {}}} for one in ("^a", "b$")]
    assert "&" in written({"type": "object", "allOf": overlapping})
    assert not compared


def test_one_pattern_that_matches_no_name_needs_no_automaton(monkeypatch):
    made = []
    monkeypatch.setattr(patterns, "automaton", made.append)
    cells = patterns.Patterns().cells(["^x-"], ["name", "x"], lambda _: True)
    assert cells == [("^x-", frozenset({"^x-"}))]
    assert not patterns.Patterns().cells(["^x-"], [], lambda _: False)
    assert not made


def test_patterns_that_ends_need_are_not_read_again(monkeypatch):
    read = []
    monkeypatch.setattr(patterns, "automaton", lambda node: read.append(node) or automaton(node))
    names = {"^a+$": {"type": "string"}, "^a*b": {"minLength": 2}}
    schema = {"type": "object", "patternProperties": names, "properties": {"ab": {}}}
    libraries = Libraries(VOCABULARY, GuideConfig())
    libraries.first_enforcing(Guide(json_schema=schema), "llguidance", lambda _: None)
    assert read
    assert len(read) == len(set(read))


def test_names_that_may_not_come_are_not_written(monkeypatch):
    texts = []
    text_of = patterns.Patterns._cell_text

    def cell_text(self, cell, matched, *others):
        texts.append(matched)
        return text_of(self, cell, matched, *others)

    monkeypatch.setattr(patterns.Patterns, "_cell_text", cell_text)
    closed = [{"patternProperties": {one: {}}, "additionalProperties": False} for one in "abcd"]
    written({"type": "object", "allOf": closed})
    assert texts
    assert {len(one) for one in texts} == {4}


def test_lengths_are_written_into_a_pattern():
    text = written({"type": "string", "pattern": "^([a-z][0-9])+$", "minLength": 9_999})
    assert "{5000,}" in text
    assert " & " not in text


@pytest.mark.parametrize(
    "pattern", ["a+", "(?:ab)*", "x(?:a|b){2,5}y", "a*b*", "a?", "(?:a|bc)*", "abc"]
)
def test_texts_of_some_lengths_are_told_where_that_is_plain(pattern):
    node = whole(parse(pattern), search=False)
    for least, most in product(range(6), (0, 1, 3, 4, 7, float("inf"))):
        found = of_length(node, least, most)
        assert (found is None) == (pattern in ("a*b*", "(?:a|bc)*", "abc"))
        if found is not None and least <= most:
            sized = Repeat(ANY_CHAR, least, None if most == float("inf") else int(most))
            assert automaton(found) == automaton(node) & automaton(sized)


def test_a_pattern_of_too_many_states_is_found_out_once(monkeypatch):
    asked = []

    def too_large(node):
        asked.append(node)
        raise UnsupportedRegex("too many states")

    monkeypatch.setattr(patterns, "automaton", too_large)
    with Budget(10_000).counting():
        for _ in range(3):
            with pytest.raises(UnsupportedRegex, match="too many states"):
                patterns.pattern_automaton("^a$")
    assert len(asked) == 1


def test_parts_without_instances_are_taken_out_in_one_pass():
    core = typed("", "string")
    for _ in range(100):
        core = objects("", Objects({"a": core, "b": False}, required=("a",)))
    budget = Budget(GuideConfig().max_schema_steps)
    with budget.counting():
        prune(CoreSchema(core))
    assert budget.spent < 3_000


def test_objects_share_the_members_that_they_have_alike():
    def one(name: str) -> dict[str, Any]:
        names = (name, "alike", f"{name}s", "shared")
        properties = {each: {"type": "string"} for each in names}
        return {"type": "object", "properties": properties, "required": [name]}

    text = written({"anyOf": [one("a"), one("b")]})
    for name in ("alike", "shared"):
        assert text.count(f'"\\"{name}\\""":"') == 1


def test_values_and_names_are_written_once(monkeypatch):
    made: list[str] = []
    text_literal, scalar_terminals = schema_rules.text_literal, schema_rules.scalar_terminals
    monkeypatch.setattr(
        schema_rules, "text_literal", lambda name: made.append(name) or text_literal(name)
    )
    monkeypatch.setattr(
        schema_rules,
        "scalar_terminals",
        lambda node, name, **how: made.append(name) or scalar_terminals(node, name, **how),
    )
    names = [f"name{i}" for i in range(30)]
    asked = {name: {"type": "string", "minLength": 1} for name in names}
    closed = {"type": "object", "properties": asked, "additionalProperties": False}
    written({"allOf": [closed, {"required": ["name7"]}]})
    assert sorted(made) == sorted([*names, "string"])


def test_nodes_of_the_same_parts_are_asked_about_once(monkeypatch):
    asked = []
    keywords = enforce.keywords
    monkeypatch.setattr(enforce, "keywords", lambda node: asked.append(node) or keywords(node))
    text = Kinds(types=("string",))
    many = {f"name{i}": Node(f"/properties/name{i}", text) for i in range(30)}
    core = CoreSchema(objects("", Objects(many)))
    assert not [*enforce.unenforced(core, backend_spec("llguidance").enforced())]
    assert len(asked) == 2


def test_negations_are_looked_for_where_a_reference_leads_to_one_alone(monkeypatch):
    reached = []
    reach = positive._Negations._reach_parts

    def reach_parts(self, schema, place):
        reached.append(place.path)
        reach(self, schema, place)

    monkeypatch.setattr(positive._Negations, "_reach_parts", reach_parts)
    plain = {f"p{i}": {"properties": {"next": {"$ref": f"#/$defs/p{i + 1}"}}} for i in range(9)}
    kinds = {"a": {"$ref": "#/$defs/b"}, "b": {"items": {"not": {"$ref": "#/$defs/p3"}}}}
    hidden = {"hidden": {"p": {"not": {"type": "null"}}}}
    names = ("p0", "a", "p9")
    schema = {
        "properties": {name: {"$ref": f"#/$defs/{name}"} for name in names},
        "$defs": {**plain, **kinds, "p9": {"$ref": "#/hidden/p"}},
        **hidden,
    }
    found = positive.without_negations(schema)
    assert set(found.forms) == {("/$defs/b/items", "not"), ("/hidden/p", "not")}
    assert "/$defs/b" in reached
    # all of them lead to what stands at /hidden
    assert "/$defs/p0" in reached
    reached.clear()
    schema["$defs"]["p9"] = {}
    found = positive.without_negations(schema)
    assert set(found.forms) == {("/$defs/b/items", "not")}
    assert not any("/p" in path.removeprefix("/properties") for path in reached)


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


def test_a_format_is_not_read_again_for_the_next_schema(monkeypatch):
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "format": "uri"}}
    libraries = Libraries(VOCABULARY, GuideConfig())
    guide = Guide(json_schema=schema)
    libraries.first_enforcing(guide, "llguidance", lambda _: None)
    monkeypatch.setattr(whole_texts, "parse", lambda pattern: pytest.fail(f"{pattern} is read"))
    libraries.first_enforcing(guide, "llguidance", lambda _: None)


def test_what_a_guard_refuses_is_not_written(monkeypatch):
    write, schemas = LLGuidanceBackend.write, []

    def writing(self, rewritten, limits):
        schemas.append(rewritten)
        return write(self, rewritten, limits)

    monkeypatch.setattr(LLGuidanceBackend, "write", writing)
    listed = {"anyOf": [{"enum": [[1]]}, {"enum": [[2, 3]]}]}
    guide = Guide(json_schema={"type": "array", "uniqueItems": True, **listed})
    libraries = Libraries(VOCABULARY, GuideConfig())
    assert libraries.first_enforcing(guide, "llguidance", lambda _: None).backend == "llguidance"
    assert len(schemas) == 1


def test_the_nearest_names_are_found_without_looking_at_all():
    places = {f"d{i}": {"properties": {f"a{i}": {}, f"b{i}": {}}} for i in range(2_000)}
    root = {"$defs": places, "properties": {"top": {}}}
    budget = Budget(1_000_000)
    with budget.counting():
        assert list(islice(nearest_names(root, "/$defs/d7/oneOf/0"), 3)) == ["a7", "b7", "a0"]
        before = budget.spent
        for i in range(100):
            assert next(nearest_names(root, f"/$defs/d{i}")) == f"a{i}"
        assert budget.spent - before < 1_000


def test_many_branches_that_a_name_tells_apart_are_compared_in_few_steps():
    def resource(name: str) -> dict[str, Any]:
        properties = {"resourceType": {"const": name}, **{f"{name}{i}": {} for i in range(20)}}
        closed = {"required": ["resourceType"], "additionalProperties": False}
        return {"properties": properties, **closed}

    names = [f"Resource{i}" for i in range(140)]
    definitions = {name: resource(name) for name in names}
    branches = [{"$ref": f"#/definitions/{name}"} for name in names]
    schema = {"oneOf": branches, "definitions": definitions}
    budget = Budget(1_000_000)
    with budget.counting():
        next(rewrites(Guide(json_schema=schema), "llguidance"))
    assert budget.spent < 500_000
