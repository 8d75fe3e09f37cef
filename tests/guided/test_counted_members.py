"""Objects whose members are counted while some may be left out, negations that ask for one of a few
names, and texts that several patterns have in common."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from grammar_backends import WHOLE
from jsonschema import Draft202012Validator
from one_compiler import compiler_of

from specguide.bench.instances import BYTES, takes, takes_any, takes_in_some_order
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.regex.tree import UnsupportedRegex
from specguide.guided.schema.core.patterns import have_common_text

NAMES = "abcd"

compiler = compiler_of(BYTES, GuideConfig(isolate_compiles=False))


def objects_of(names: str) -> Iterator[dict[str, int]]:
    """An object for each set of names, in their order."""
    for num in range(len(names) + 1):
        for chosen in itertools.combinations(names, num):
            yield dict.fromkeys(chosen, 1)


@pytest.mark.parametrize("required", [(), ("b",), ("a", "d")])
@pytest.mark.parametrize(("least", "most"), [(0, 1), (1, None), (2, 3), (3, None), (0, 2), (4, 4)])
@pytest.mark.parametrize("others", [False, {"type": "integer"}])
def test_members_are_counted(compiler, required, least, most, others):
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in NAMES},
        "required": list(required),
        "minProperties": least,
        "additionalProperties": others,
    }
    if most is not None:
        schema["maxProperties"] = most
    if most is not None and most < len(required):
        pytest.skip("there is no such object")
    grammar = compiler.compile(Guide(json_schema=schema))
    for value in objects_of(NAMES + "xy" if others else NAMES):
        is_valid = (
            least <= len(value) <= (len(value) if most is None else most)
            and set(required) <= value.keys()
        )
        assert takes_any(grammar, value, schema) == is_valid, json.dumps(value)
        for name in value.keys() - set(NAMES):  # once more does not count
            text = json.dumps(value)[:-1] + f', "{name}": 1}}'
            assert len(value) >= least or not takes(grammar, text), text


@pytest.mark.parametrize(
    "schema",
    [
        {"minProperties": 2, "oneOf": [{"enum": [5, "a"], "required": ["b"]}, {"maximum": 2}]},
        {"not": {"type": ["object", "integer"], "maxProperties": 1}},
        {
            "oneOf": [
                {"type": ["object", "null"], "maxProperties": 1},
                {"type": ["object", "array"]},
            ]
        },
    ],
)
def test_what_fails_by_a_count_keeps_its_other_types_and_all_objects(compiler, schema):
    grammar = compiler.compile(Guide(json_schema=schema))
    objects = ({}, {"a": 1}, {"b": 1, "c": 2}, {"a": 1, "b": 2})
    for value in (None, True, 5, 1, 1.5, "a", "", [], *objects):
        fits = Draft202012Validator(schema).is_valid(value)
        assert takes_any(grammar, value, schema) == fits, value


@pytest.mark.parametrize("backend", WHOLE)
def test_a_string_of_no_length_leaves_other_types(backend):
    schema = {"type": ["string", "integer", "null"], "minLength": 3, "maxLength": 2}
    with closing(GrammarCompiler(BYTES, GuideConfig(backend=backend))) as compiler:
        grammar = compiler.compile(Guide(json_schema=schema))
        assert all(takes_any(grammar, value, schema) for value in (1, None))
        assert not takes(grammar, '"aaa"')


@pytest.mark.parametrize("backend", WHOLE)
def test_a_branch_that_fails_by_a_length_alone_keeps_strings(backend):
    schema = {"oneOf": [{"maxProperties": 0}, {"type": ["object", "string"], "maxLength": 1}]}
    with closing(GrammarCompiler(BYTES, GuideConfig(backend=backend))) as compiler:
        grammar = compiler.compile(Guide(json_schema=schema))
        for value in ("", "a", "ab", 1, None, {}, {"a": 1}):
            fits = Draft202012Validator(schema).is_valid(value)
            assert takes_any(grammar, value, schema) == fits, value


@pytest.mark.parametrize(
    "asked",
    [
        {"not": {"propertyNames": {"not": {"enum": ["a", "c"]}}}},
        {"not": {"patternProperties": {"^(a|c)$": False}}},
    ],
)
def test_one_of_a_few_names_is_asked_for(compiler, asked):
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in NAMES},
        "additionalProperties": False,
        "maxProperties": 3,
        **asked,
    }
    grammar = compiler.compile(Guide(json_schema=schema))
    for value in objects_of(NAMES):
        is_valid = len(value) <= 3 and bool({"a", "c"} & value.keys())
        if takes_any(grammar, value, schema):
            assert is_valid, json.dumps(value)
    assert takes_any(grammar, {"a": 1, "b": 2}, schema)
    assert takes_any(grammar, {"c": 1}, schema)


@pytest.mark.parametrize(
    ("patterns", "least", "most", "expected"),
    [
        (("^a+$", "^(aa)+$"), 0, None, True),
        (("^(aa)+$", "^(aaa)+$"), 0, 5, False),
        (("^(aa)+$", "^(aaa)+$"), 7, None, True),
        (("^([a-z][0-9])+$",), 10_000, None, True),
        (("^([a-z][0-9])+$",), 3, 3, False),
        (("^a", "^b"), 0, None, False),
        (("a", "b", "c"), 0, 2, False),
        (("a", "b", "c"), 0, 3, True),
    ],
)
def test_texts_in_common(patterns, least, most, expected):
    assert have_common_text(patterns, least, most) is expected


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ({"name": "A", "url": []}, True),
        ({"name": "A", "phone": "1"}, True),
        ({"url": []}, True),
        ({"name": "A"}, False),
        ({"name": "A", "phone": "1", "url": []}, False),
        ({"name": "A", "x-a": "1"}, False),
    ],
)
def test_closed_branches_that_share_a_property(compiler, value, is_valid):
    def branch(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"name": {"type": "string"}} | properties,
            "patternProperties": {"^x-": {"type": "string"}},
            "additionalProperties": False,
        }

    schema = {"oneOf": [branch({"phone": {"type": "string"}}), branch({"url": {"type": "array"}})]}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, value, schema) is is_valid


LARGE = "^(?:[ab]{0,200}a[ab]{9})$"
"""A pattern of more states than an automaton may have."""


@pytest.mark.parametrize(
    ("pattern", "least", "most", "expected"),
    [("^[^a]*$", 0, None, False), ("^[^b]+$", 0, 9, False), ("^[^b]+$", 9, 12, True)],
)
def test_texts_in_common_with_a_large_pattern(pattern, least, most, expected):
    assert have_common_text((LARGE, pattern), least, most) is expected


def test_too_many_states_at_once():
    with pytest.raises(UnsupportedRegex):
        have_common_text(("^(a{199})+$", "^(a{197})+$"), 1, None)


def test_a_string_of_two_patterns_and_a_length(compiler):
    schema = {"type": "string", "pattern": "^([a-z][0-9])+$", "minLength": 60}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, "a1" * 30, schema) and not takes_any(grammar, "a1" * 29, schema)


@pytest.mark.parametrize("kind", [{"type": "object"}, {"type": ["object", "null"]}, {}])
def test_where_named_members_are_too_few_others_are_counted(compiler, kind):
    labels = {**kind, "properties": {"a": {"type": "string"}}, "minProperties": 3}
    schema = {"type": "object", "properties": {"labels": labels}, "required": ["labels"]}
    grammar = compiler.compile(Guide(json_schema=schema))
    others = {"x": 1, "labels": {"b": 1, "a": "", "c": None}}
    assert takes_any(grammar, others, schema)
    assert takes_any(grammar, {"labels": None}, schema) == (kind != {"type": "object"})
    assert not takes_any(grammar, {"labels": {"b": 1, "a": ""}}, schema)
    assert not takes_any(grammar, {"labels": {"b": 1, "a": 1, "c": 1}}, schema)


@pytest.mark.parametrize(
    "never",
    [
        {"type": "string", "format": "uuid", "maxLength": 6},
        {"type": "object", "required": ["x", "y"], "maxProperties": 1},
        {
            "type": "object",
            "properties": {"x": {"type": "string", "maxLength": 0, "pattern": "a"}},
            "required": ["x"],
        },
    ],
)
@pytest.mark.parametrize("most", [{}, {"maxProperties": 2}])
def test_a_property_that_nothing_fits_is_left_out(compiler, never, most):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": never},
        "additionalProperties": False,
        "minProperties": 1,
        **most,
    }
    grammar = compiler.compile(Guide(json_schema=schema))
    for value in objects_of("abc"):
        assert takes_any(grammar, value, schema) == (value != {} and "c" not in value)


def test_what_nothing_fits_takes_no_other_choice_with_it(compiler):
    never = {"type": "object", "required": ["x", "y"], "maxProperties": 1}
    schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [never, {"type": "integer"}]}, "b": {"type": "null"}},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, {"a": 1}, schema)
    assert not takes_any(grammar, {"a": {"x": 1}}, schema)


def test_too_few_properties_leave_values_of_other_types(compiler):
    schema = {"properties": {"a": True}, "additionalProperties": False, "minProperties": 2}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, 1, schema) and takes_any(grammar, "a", schema)
    assert not takes_any(grammar, {"a": 1}, schema)
    with pytest.raises(InvalidGuide, match="no value at all"):
        compiler.compile(Guide(json_schema={**schema, "type": "object"}))


def test_fractions_of_a_step_that_no_last_digits_tell_are_refused_in_words_of_ours(compiler):
    schema = {"anyOf": [{"multipleOf": 0.25}], "oneOf": [{"type": "integer"}, {}]}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, 1.75, schema) and takes_any(grammar, "a", schema)
    assert not any(takes_any(grammar, value, schema) for value in (2, 1.2))
    schema["anyOf"] = [{"multipleOf": 0.3}]
    with pytest.raises(UnsupportedGuide, match=r"cannot exclude integers.*leave out either"):
        compiler.compile(Guide(json_schema=schema))


def test_a_property_of_both_branches_whose_format_is_large(compiler):
    url = {"type": "string", "format": "uri"}
    user = {"properties": {"id": {"type": "integer"}, "url": url}, "required": ["url"]}
    company = {"properties": {"url": url}, "required": ["url", "name"]}
    schema = {"type": "object", "oneOf": [user, company]}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes_any(grammar, {"url": "https://a.example"}, schema)
    company_alone = {"url": "https://a.example", "name": "A", "id": "x"}
    assert takes_in_some_order(grammar, company_alone, schema)
    assert not takes_in_some_order(grammar, company_alone | {"id": 1}, schema)


@pytest.mark.parametrize(
    "counts",
    [
        {"minProperties": 7, "maxProperties": 1},
        {"required": ["a", "b"], "maxProperties": 1},
        {"properties": {"a": True}, "additionalProperties": False, "minProperties": 2},
    ],
)
def test_objects_of_too_many_and_too_few_members(compiler, counts):
    with pytest.raises(InvalidGuide, match="allows no value at all"):
        compiler.compile(Guide(json_schema={"type": "object", **counts}))
    schema = {"type": "object", "properties": {"x": {"type": ["object", "null"], **counts}}}
    matcher = compiler.compile(Guide(json_schema=schema)).matcher()
    assert all(map(matcher.accept, b'{"x":'))
    assert not matcher.accept(ord("{")) and all(map(matcher.accept, b"null}"))
