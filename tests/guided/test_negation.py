"""The first pass over JSON Schemas: forms in place of negations, lowered or refused later."""

from __future__ import annotations

from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from lowered_schemas import is_valid, lowered, plain
from one_compiler import compiler_of

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.schema.core.nodes import Kinds, Objects
from specguide.guided.schema.core.patterns import pattern_matches
from specguide.guided.schema.negation.forms import Branch, Choice, Conditional, Failure, Refused
from specguide.guided.schema.negation.positive import without_negations

_BRACKETED = r"^\[([^\[].*)?\]$"
compiler = compiler_of(VOCABULARY)


def form(schema: Any, keyword: str) -> Any:
    """The form that stands for a keyword of the root."""
    return without_negations(schema).forms["", keyword][0]


def test_what_cannot_be_negated_is_said_beside_what_can() -> None:
    failure = form({"not": {"type": "string", "format": "uri-template"}}, "not")
    assert isinstance(failure, Failure)
    assert [way.keyword for way in failure.ways] == ["type"]
    assert [error.keyword for error in failure.unspoken] == ["format"]
    with pytest.raises(UnsupportedGuide, match="format at /not/format cannot be enforced"):
        lowered({"not": {"type": "string", "format": "uri-template"}})


def test_a_part_that_cannot_be_negated_is_left_out_beside_another() -> None:
    core = plain(lowered({"not": {"minLength": 2, "format": "uri-template"}}))
    assert core == {"type": "string", "maxLength": 1}


def test_a_condition_that_cannot_be_failed_leaves_what_holds_either_way() -> None:
    schema = {"if": {"format": "uri-template"}, "then": {"minimum": 1}, "else": {"maximum": 5}}
    assert isinstance(form(schema, "if"), Conditional)
    _, unmet = plain(lowered(schema))["anyOf"]
    assert unmet == {"allOf": [{"minimum": 1}, {"maximum": 5}]}


def test_a_condition_without_then_and_else_asks_nothing() -> None:
    assert plain(lowered({"if": {"propertyNames": {"enum": ["a"]}}})) == {}
    assert plain(lowered({"if": {"format": "idn-email"}, "then": True})) == {}


def test_a_pattern_of_which_a_part_never_matches_can_fail() -> None:
    core = plain(lowered({"type": "string", "not": {"pattern": r"_(?<=a)|\w[^d]2-a|0b"}}))
    texts = ["", "_", "aa2-a", "ad2-a", "0b", "0a"]
    assert [text for text in texts if is_valid(core, text)] == ["", "_", "ad2-a", "0a"]


def test_a_bound_that_draft_4_excludes_fails_itself() -> None:
    negated = {"minimum": 0, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True}
    core = plain(lowered({"$schema": "http://json-schema.org/draft-04/schema#", "not": negated}))
    assert [number for number in range(-1, 7) if is_valid(core, number)] == [-1, 0, 5, 6]


def test_a_branch_of_one_of_has_the_failures_of_its_rivals_alone() -> None:
    schema = {"oneOf": [{"minimum": 3}, {"maximum": 5}, {"enum": [True]}, {"enum": [False]}]}
    choice = form(schema, "oneOf")
    assert isinstance(choice, Choice)
    branches = [branch for branch in choice.parts if isinstance(branch, Branch)]
    rivals = [[failed.path for failed in branch.failed_rivals] for branch in branches]
    assert rivals == [["/oneOf/1"], ["/oneOf/0"], [], []]


@pytest.mark.parametrize(
    "negated", [{"$ref": "other.json"}, {"$ref": "#/nowhere"}, {"minimum": "low"}]
)
def test_the_pass_leaves_it_to_lowering_to_refuse(negated: Any) -> None:
    unused = {"type": "string", "properties": {"a": {"not": negated}}}
    assert plain(lowered(unused)) == {"type": "string"}
    refused = form({"not": negated}, "not")
    assert isinstance(refused, Refused) or isinstance(refused.ways[0].forms[0], Refused)
    with pytest.raises(InvalidGuide, match="at /not/"):
        lowered({"not": negated})


@pytest.mark.parametrize(
    "branch", [{"enum": 5}, {"required": 5}, {"$ref": 5}, {"anyOf": 5}, {"allOf": [{"enum": 5}]}]
)
def test_malformed_branches_of_one_of_are_told_by_their_place(branch: Any) -> None:
    with pytest.raises(InvalidGuide, match=r"at /oneOf/0/.*must be"):
        lowered({"oneOf": [branch, {"enum": [{}]}]})
    unused = {"type": "string", "properties": {"a": {"oneOf": [branch, {"enum": [{}]}]}}}
    assert plain(lowered(unused)) == {"type": "string"}


def test_a_malformed_part_beside_an_enum_is_told_by_its_place() -> None:
    with pytest.raises(InvalidGuide, match="required at /allOf/0/required must be"):
        lowered({"enum": [{}], "allOf": [{"required": 5}]})


def test_names_that_fail_are_those_of_all_properties() -> None:
    core = plain(lowered({"not": {"propertyNames": {"enum": ["a", "b"]}}}))
    (names,) = core["patternProperties"]
    assert not pattern_matches(names, "a")
    assert pattern_matches(names, "ab")
    assert core["minProperties"] == 1
    assert core["additionalProperties"] is False


def test_no_name_fails_where_every_name_fits() -> None:
    with pytest.raises(InvalidGuide, match="allows no value"):
        lowered({"not": {"propertyNames": True}})


def test_negated_references_that_lead_to_each_other_end() -> None:
    other = {"properties": {"child": {"$ref": "#"}}}
    core = plain(lowered({"not": {"$ref": "#/$defs/x"}, "$defs": {"x": other}}))
    assert core["$defs"]


_TOLD_APART = {
    "required": ["kind"],
    "allOf": [
        {
            "oneOf": [
                {"properties": {"kind": {"enum": ["a"]}, "x": {"minimum": 3}}},
                {"properties": {"kind": {"enum": ["b"]}, "x": {"maximum": 5}}},
            ]
        }
    ],
}


def _num_rivals(schema: Any, path: str) -> int:
    [choice, *_] = without_negations(schema).forms[path, "oneOf"]
    assert isinstance(choice, Choice)
    return sum(len(branch.failed_rivals) for branch in choice.parts if isinstance(branch, Branch))


def test_branches_are_told_apart_by_what_is_required_beside_their_all_of() -> None:
    schema = {"type": "object", **_TOLD_APART}
    assert _num_rivals(schema, "/allOf/0") == 0
    beside = {"allOf": [{"required": ["kind"]}, {"allOf": _TOLD_APART["allOf"]}]}
    assert _num_rivals({"type": "object", **beside}, "/allOf/1/allOf/0") == 0
    lax = {"allOf": _TOLD_APART["allOf"]}
    assert _num_rivals({"type": "object", **lax}, "/allOf/0") == 2


@pytest.mark.parametrize("is_first", [True, False])
def test_a_choice_that_is_also_referred_to_has_its_rivals(is_first: bool) -> None:
    properties = {
        "told": {"type": "object", **_TOLD_APART},
        "lax": {"type": "object", "allOf": [{"$ref": "#/properties/told/allOf/0"}]},
    }
    names = list(properties) if is_first else list(properties)[::-1]
    schema = {"properties": {name: properties[name] for name in names}}
    assert _num_rivals(schema, "/properties/told/allOf/0") == 2


def test_a_value_that_two_branches_take_by_reference_fits_not_one_of_them() -> None:
    tagged = {
        name: {"properties": {"kind": {"const": name}}, "required": ["kind"]} for name in "ab"
    }
    schema = {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": tagged}
    core = plain(lowered(schema))
    assert is_valid(core, {"kind": "a"}) and is_valid(core, {"kind": "b"})
    assert not is_valid(core, "a") and not is_valid(core, {})


def _closed(pattern: str, **beside: Any) -> dict[str, Any]:
    return {"patternProperties": {pattern: {}}, "additionalProperties": False, **beside}


def _failed_rivals(*branches: Any) -> list[list[Any]]:
    choice = form({"oneOf": list(branches)}, "oneOf")
    return [list(branch.failed_rivals) for branch in choice.parts]


def test_branches_that_name_no_property_in_common_fail_each_other_by_one_property() -> None:
    named = {"type": "object", "properties": {"owner": {}}, "additionalProperties": False}
    branches = [_closed("^table ", type="object"), _closed("^view ", type="object"), named]
    for (failed,) in _failed_rivals(*branches):
        assert failed.kinds == Kinds(objects=Objects(min_properties=1))
    core = plain(lowered({"oneOf": branches}))
    assert is_valid(core, {"table a": 1}) and is_valid(core, {"owner": 1})
    assert not is_valid(core, {}) and not is_valid(core, {"table a": 1, "view b": 1})


def test_branches_of_which_one_asks_for_a_property_that_the_other_lacks_are_no_rivals() -> None:
    asking = _closed("^table ", type="object", minProperties=1)
    assert _failed_rivals(asking, _closed("^view ", type="object")) == [[], []]
    required = _closed("^table ", type="object", required=["owner"], properties={"owner": {}})
    assert _failed_rivals(required, _closed("^view ", type="object")) == [[], []]
    assert _failed_rivals(required, _closed("^o", type="object")) != [[], []]


_NUMBERS = {"type": "array", "items": {"type": "number"}}
_WORDS = {"type": "array", "items": {"type": "string"}}


def test_arrays_of_which_one_has_an_item_are_no_rivals_where_their_first_items_differ() -> None:
    told = {"type": "array", "prefixItems": [{"const": "x"}], "minItems": 1}
    assert _failed_rivals({**_NUMBERS, "minItems": 1}, _WORDS) == [[], []]
    assert _failed_rivals(told, _NUMBERS) == [[], []]
    assert _failed_rivals(told, _WORDS) != [[], []]
    assert _failed_rivals(_NUMBERS, _WORDS) != [[], []]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (_closed("^table ", type="object"), _closed("a$", type="object")),
        (_closed("^table ", minLength=2), _closed("^view ", maxLength=3)),
        (_closed("^table ", type="object"), {"type": "object", "patternProperties": {"^v": {}}}),
    ],
)
def test_other_branches_fail_each_other_by_what_they_ask(left: Any, right: Any) -> None:
    for (failed,) in _failed_rivals(left, right):
        assert isinstance(failed, Failure)


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        (
            {"oneOf": [{"pattern": r"^(?=.{1,60}$)[A-Z]+(-[A-Z]+)*$"}, {"pattern": _BRACKETED}]},
            ["A-B", "A" * 60, "[a]", "[]"],
            ["A" * 61, "A-", "[[]"],
        ),
        (
            {"not": {"pattern": r"^(?=[a-z-]{1,60}$)(?![a-z]*--[a-z]*$)[a-z]+(-+[a-z]+)*$"}},
            ["a--b", "A", "-", "a" * 61],
            ["a-b", "a", "a--b-c"],
        ),
        (
            {
                "pattern": _BRACKETED,
                "not": {"pattern": r"^(?=.{0,259}[^\s.]$)(?!.*[<>])"},
            },
            ["[" + "a" * 260 + "]"],
            ["[]", "[a]", "[" + "a" * 258 + "]", "a" * 261],
        ),
    ],
)
def test_long_patterns_with_lookaheads_are_told_from_others(compiler, schema, inside, outside):
    compiled = compiler.compile(Guide(json_schema={"type": "string", **schema}))
    assert [text for text in inside + outside if takes(compiled, f'"{text}"')] == inside
