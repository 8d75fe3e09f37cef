"""What fails a subschema: in all ways, or in the simplest ones where all would be too many."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from jsonschema import Draft202012Validator
from lowered_schemas import is_valid, lowered, plain

from specguide.bench.instances import BYTES, draw, takes_any
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.schema.core.nodes import Node, Objects, objects, one_of_values, typed
from specguide.guided.schema.core.sameness import Sameness
from specguide.guided.schema.merging.clashes import Clashes
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.pruning.prune import prune

NAMES = "abcdefghij"


def compiler(vocabulary: Any = VOCABULARY) -> GrammarCompiler:
    return GrammarCompiler(vocabulary, GuideConfig())


@pytest.mark.parametrize(
    ("schema", "numbers"),
    [
        ({"type": "integer", "not": {"multipleOf": 7}}, range(-30, 100)),
        ({"type": "integer", "multipleOf": 6, "not": {"multipleOf": 4}}, range(-30, 100)),
        (
            {"type": "integer", "not": {"anyOf": [{"multipleOf": 2}, {"multipleOf": 3}]}},
            range(-30, 100),
        ),
        ({"minimum": 95, "maximum": 130, "not": {"multipleOf": 11}}, range(85, 140)),
        ({"type": "number", "not": {"multipleOf": 5}}, (0, 0.5, -2.25, 5, 10, 11, -15)),
        ({"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]}, range(46)),
    ],
)
def test_multiples_are_left_out(schema: Any, numbers: Any) -> None:
    grammar = compiler().compile(Guide(json_schema=schema))
    for number in numbers:
        fits = Draft202012Validator(schema).is_valid(number)
        assert takes(grammar, json.dumps(number)) == fits, number


def test_digits_are_one_piece() -> None:
    schema = {"type": "array", "items": {"type": "integer", "not": {"multipleOf": 3}}}
    grammar = compiler().compile(Guide(json_schema=schema))
    assert (
        takes(grammar, "[ 10, 25 ]") and not takes(grammar, "[1 0]") and not takes(grammar, "[9]")
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 6, "not": {"multipleOf": 3}},
        {"type": "integer", "minimum": 14, "maximum": 14, "not": {"multipleOf": 7}},
    ],
)
def test_no_number_is_left(schema: Any) -> None:
    with pytest.raises(UnsupportedGuide):
        compiler().compile(Guide(json_schema=schema))


def test_a_format_is_failed_by_what_no_reader_takes_for_it() -> None:
    schema = {"oneOf": [{"format": name} for name in ("hostname", "ipv4", "ipv6")]}
    grammar = compiler().compile(Guide(json_schema={"type": "string", **schema}))
    for text in ("a.example", "::1"):
        assert takes(grammar, json.dumps(text))
    assert not takes(grammar, '"1.2.3.4"')  # a host name, too


def wide(num_branches: int) -> dict[str, Any]:
    """Branches that share instances, with many ways to fail each."""
    properties = {name: {"type": "integer"} for name in NAMES}
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {**properties, f"kind{i}": {"type": "string", "minLength": 2}},
                "required": [f"kind{i}"],
            }
            for i in range(num_branches)
        ]
    }


def test_with_few_ways_to_fail_there_are_fewer_instances_but_no_other() -> None:
    core = lowered(wide(3), "llguidance")
    every, few = (plain(prune(merge(core, most_ways))) for most_ways in (None, 1))
    instances: list[Any] = [{"kind1": "ab"}, {"kind1": "ab", "kind2": "c"}, {}, 1, {"kind0": 1}]
    instances += [{"kind1": "ab", "kind2": "cd"}, {"kind0": "ab", "a": 1}, {"kind0": "ab", "a": ""}]
    taken = [instance for instance in instances if is_valid(few, instance)]
    assert all(is_valid(every, instance) for instance in taken)
    assert {"kind1": "ab"} in taken and {"kind0": "ab", "a": 1} in taken


def test_a_way_that_is_not_enforced_is_left_out_alone() -> None:
    negated = {"type": "object", "minProperties": 1, "maxProperties": 1}
    grammar = compiler().compile(Guide(json_schema={"not": negated}))
    assert all(takes(grammar, text) for text in ("true", "[]", "{}"))
    assert not takes(grammar, '{"a": 1}')


def test_branches_with_many_ways_to_fail_compile() -> None:
    schema = wide(12)
    grammar = compiler().compile(Guide(json_schema=schema))
    assert takes(grammar, '{"kind3": "xy"}') and not takes(grammar, '{"a": 1}')
    assert not takes(grammar, '{"kind3": "xy", "kind4": "xy"}')
    grammar, rng = compiler(BYTES).compile(Guide(json_schema=schema)), random.Random(3)
    for _ in range(5):
        text = draw(grammar.matcher(), rng)
        assert text is None or Draft202012Validator(schema).is_valid(json.loads(text))


def test_nodes_that_ask_the_same_have_one_number() -> None:
    number = Sameness().number
    left = objects("/a", Objects({"x": typed("/a/x", "string")}, required=("x",)))
    right = objects("/b", Objects({"x": typed("/b/x", "string")}, required=("x",)))
    assert number(left) == number(right)
    assert number(left) != number(objects("/a", Objects({"x": typed("", "string")})))
    assert number(Node("", values=(1,))) != number(Node("", values=(True,)))


def test_a_required_property_without_a_value_is_a_clash() -> None:
    known = objects("", Objects({"kind": one_of_values("", ["a"]) or False}, required=("kind",)))
    other = objects("", Objects({"kind": one_of_values("", ["b"]) or False}))
    number = objects("", Objects({"kind": typed("", "number")}))
    fits = objects("", Objects({"kind": typed("", "string")}))
    clashes = Clashes({})
    beside = clashes.beside([known])
    assert beside.clash([other]) and beside.clash([number]) and beside.clash([typed("", "array")])
    assert not beside.clash([fits]) and not clashes.beside([fits]).clash([other])


def test_an_object_that_cannot_have_enough_properties_is_left_out() -> None:
    asked = {"type": "object", "properties": {"a": False, "b": False}, "minProperties": 1}
    closed = {**asked, "additionalProperties": False}
    core = prune(merge(lowered({"anyOf": [closed, {"type": "null"}]}, "llguidance")))
    assert plain(core) == {"type": "null"}


def test_patterns_that_share_no_name_stand_side_by_side() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}},
        "additionalProperties": False,
    }
    grammar = compiler().compile(Guide(json_schema=schema))
    assert takes(grammar, '{"ax": 1, "xb": "s"}') and not takes(grammar, '{"ab": 1}')


def test_a_listed_property_that_chooses_is_a_simple_way_to_fail() -> None:
    branches = [
        {
            "properties": {
                "kind": {"const": kind},
                "options": {"type": "object", "properties": {kind: {"type": "boolean"}}},
            }
        }
        for kind in ("first", "second", "third")
    ]
    schema = {"type": "object", "oneOf": branches}
    core = plain(prune(merge(lowered(schema), most_ways=1)))
    for kind in ("first", "second", "third"):
        assert is_valid(core, {"kind": kind, "options": {kind: True}})
        assert is_valid(core, {"options": {kind: 1}}) <= is_valid(schema, {"options": {kind: 1}})


def test_a_branch_for_all_other_kinds_stays_beside_many_of_one_kind_each():
    kinds = ["loader", "app", "api", *(f"kind-{i}" for i in range(17))]

    def of_kind(i: int) -> dict[str, Any]:
        asked = ["kind", *(f"p{j}" for j in range(i % 4))]
        named = {name: {"type": "string"} for name in asked} | {"kind": {"const": kinds[i]}}
        return {"type": "object", "properties": named, "required": asked}

    known = {"properties": {"kind": {"pattern": f"({'|'.join(kinds)})"}}}
    other = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    schema = {"oneOf": [*map(of_kind, range(20)), {"not": known, **other}]}
    made = compiler(BYTES)
    grammar = made.compile(Guide(json_schema=schema))
    made.close()
    for value in ({"kind": "x"}, {"kind": ""}, {"kind": "app"}, {"kind": "kind-5"}, {}):
        for more in ({}, {"p0": "a"}, {"p0": 1}):
            instance = {**value, **more}
            assert takes_any(grammar, instance, schema) == is_valid(schema, instance), instance
