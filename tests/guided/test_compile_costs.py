"""Owns the tests of what a compile need not do: what is not used, or is known already."""

from __future__ import annotations

import json
from itertools import islice, product
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY
from lowered_schemas import written

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.adapters.schema_numbers import integer_numerals
from specguide.guided.backends import backend_spec
from specguide.guided.backends.llguidance import schema_rules
from specguide.guided.backends.llguidance.adapter import LLGuidanceBackend
from specguide.guided.backends.llguidance.lark import guide_to_lark
from specguide.guided.backends.llguidance.remainders import with_remainders
from specguide.guided.budget import Budget, beside
from specguide.guided.compiling.libraries import Libraries
from specguide.guided.regex import minimal
from specguide.guided.regex.automaton import automaton
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import ANY_CHAR, Repeat, of_length
from specguide.guided.regex.whole import whole
from specguide.guided.schema.core import enforce
from specguide.guided.schema.core.nodes import (
    CoreSchema,
    Kinds,
    Node,
    Numbers,
    Objects,
    all_of,
    any_of,
    objects,
    typed,
)
from specguide.guided.schema.lowering.names import nearest_names
from specguide.guided.schema.merging import merge_members
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.negation import positive
from specguide.guided.schema.places.distinct import distinct_places
from specguide.guided.schema.pruning.prune import prune
from specguide.guided.select import rewrites


def test_too_many_remainders_are_found_out_soon():
    numerals = automaton(integer_numerals(Numbers(minimum=1), 15))
    with Budget(10_000).counting():
        assert with_remainders(numerals, 1320, 4_000, lambda rest: rest == 0) is None


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


def test_what_spells_out_to_too_much_is_not_merged_again_in_the_same_way():
    """Ways to be an object: 2 of each of 12 properties."""
    ways = [
        any_of("", [objects("", Objects({name: typed("", one)})) for one in ("string", "null")])
        for name in "abcdefghijkl"
    ]
    core = CoreSchema(objects("", Objects({"x": all_of("", ways)})), {})
    with Budget(1_000_000).counting():
        with pytest.raises(UnsupportedGuide, match="spells out"):
            merge(core, patterns_apart=True)
        with beside(0), pytest.raises(UnsupportedGuide, match="spells out"):
            merge(core)


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


@pytest.mark.parametrize(
    ("kind", "schema", "key_order"),
    [
        ("DistinctTokens", {"type": "array", "uniqueItems": True, "items": {}}, "schema"),
        ("KeyTokens", {"type": "object", "properties": {"a": {}}, "required": ["a"]}, "any"),
    ],
)
def test_tokens_are_read_for_guards_when_the_library_is_loaded(
    kind, schema, key_order, monkeypatch
):
    read = []
    tokens = getattr(native, kind)
    monkeypatch.setattr(native, kind, lambda known: read.append(known) or tokens(known))
    libraries = Libraries(VOCABULARY, GuideConfig())
    libraries.load("llguidance")
    assert len(read) == 1
    guide = Guide(json_schema=schema, key_order=key_order)
    libraries.first_enforcing(guide, "llguidance", lambda _: None)
    assert len(read) == 1


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


def test_parts_without_instances_are_taken_out_in_one_pass():
    core = typed("", "string")
    for _ in range(100):
        core = objects("", Objects({"a": core, "b": False}, required=("a",)))
    with Budget(3_000).counting():
        prune(CoreSchema(core))


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
        before = budget.left
        for i in range(100):
            assert next(nearest_names(root, f"/$defs/d{i}")) == f"a{i}"
        assert before - budget.left < 1_000


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
    assert budget.left > 500_000


def test_subschemas_are_compared_once_however_many_ways_lead_to_them():
    def branch(kind: str, i: int) -> dict[str, Any]:
        after = {"$ref": f"#/definitions/d{i + 1}"}
        return {
            "type": "object",
            "properties": {"next": after, "other": after, "kind": {"const": kind}},
            "required": ["next", "other", "kind"],
        }

    definitions = {f"d{i}": {"oneOf": [branch("a", i), branch("b", i)]} for i in range(9)}
    schema = {"$ref": "#/definitions/d0", "definitions": {**definitions, "d9": True}}
    budget = Budget(1_000_000)
    with budget.counting():
        text = guide_to_lark(next(rewrites(Guide(json_schema=schema), "llguidance")), GuideConfig())
    assert budget.left > 950_000 and len(text) < 10_000
