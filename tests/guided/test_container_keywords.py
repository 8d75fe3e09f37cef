"""What `contains`, `unevaluatedItems`, `uniqueItems` and `propertyNames` take, compared with
`jsonschema`."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import pytest
from lowered_schemas import is_valid

from specguide.bench.conformance import BackendCompiler
from specguide.bench.instances import takes_any
from specguide.errors import UnsupportedGuide
from specguide.guided.backends import backend_spec
from specguide.guided.budget import Budget
from specguide.guided.schema.core.evaluate import takes
from specguide.guided.schema.core.nodes import Node
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.places.distinct import distinct_places

ABLE = backend_spec("llguidance").enforced().with_guard()
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
PARTS: tuple[dict[str, Any], ...] = (
    {"prefixItems": [INTEGER]},
    {"prefixItems": [True, TEXT]},
    {"contains": {"const": "x"}},
    {"items": INTEGER},
    {"minItems": 1, "unevaluatedItems": TEXT},
    {"contains": INTEGER, "minContains": 2, "maxContains": 2},
)
ARRAYS = [list(items) for size in range(4) for items in product((1, "x", None), repeat=size)]


def _schema(rng: random.Random) -> dict[str, Any]:
    one, two, three = rng.sample(PARTS, 3)
    beside = rng.choice(
        (
            one,
            {"anyOf": [one, two]},
            {"oneOf": [one, two, three]},
            {"if": one, "then": two, "else": three},
            {"allOf": [one, {"anyOf": [two, three]}]},
            {"$ref": "#/$defs/two", "$defs": {"two": {"oneOf": [two, three]}}},
        )
    )
    return {"type": "array", **beside, "unevaluatedItems": rng.choice((False, TEXT))}


@pytest.fixture(scope="module")
def compiler():
    made = BackendCompiler("auto")
    yield made
    made.close()


def test_items_of_few_values_are_counted_at_once(compiler):
    """An object of many formats, behind which one property is free, is not counted through."""
    place = {"type": "string", "format": "uri"}
    item = {
        "type": "object",
        "properties": {**{f"p{i}": place for i in range(40)}, "q": {"type": "string"}},
        "additionalProperties": False,
    }
    budget = Budget(100_000)
    with budget.counting():
        core = next(core_schemas({"type": "array", "items": item, "uniqueItems": True}, ABLE))
        before = budget.left
        distinct_places(core)
    assert before - budget.left < 5_000


@pytest.mark.parametrize("seed", range(25))
def test_what_is_taken_is_valid(compiler, seed):
    schema = _schema(random.Random(seed))
    judge = jsonschema.Draft202012Validator(schema)
    try:
        grammar = compiler.compile(schema)
    except UnsupportedGuide:
        return
    for value in ARRAYS:
        if takes_any(grammar, value, schema):
            assert judge.is_valid(value), (json.dumps(schema), value)


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (
            {"anyOf": [{"items": TEXT}, True], "unevaluatedItems": {"type": "boolean"}},
            (["a", "b"], [True, False], []),
            (["a", True], [1]),
        ),
        (
            {"allOf": [{"contains": {"multipleOf": 2}}], "unevaluatedItems": {"multipleOf": 5}},
            ([2, 5, 4], [5, 6]),
            ([5], [2, 3]),
        ),
        ({"contains": {"const": 5}}, ([1, 2, 5], [5], [1, 5, 1]), ([], [1, 2])),
        (
            {"contains": {"const": 1}, "minContains": 1, "maxContains": 2},
            ([1], [2, 1], [1, 1], [1, 2, 1, 2]),
            ([2], [1, 1, 1]),
        ),
        (
            {**DRAFT_7, "contains": {"const": 1}, "minContains": 0},
            ([1], [2, 1]),
            ([], [2]),
        ),
        (
            {**DRAFT_7, "not": {"contains": {"const": 1}, "minContains": 0}},
            ([], [2]),
            ([1], [2, 1]),
        ),
        (
            {**DRAFT_7, "enum": [[], [1]], "not": {"contains": {"const": 1}, "minContains": 2}},
            ([],),
            ([1],),
        ),
        (
            {"prefixItems": [{"enum": [1, 2]}] * 2, "uniqueItems": True},
            ([1, 2], [2, 1, 3], [1]),
            ([1, 1], [2, 1, 2], [2, 1, 3, 3]),
        ),
        (
            {"prefixItems": [TEXT, TEXT], "minItems": 2, "maxItems": 2, "uniqueItems": True},
            (["a", "b"],),
            (["a", "a"], ["a"], ["a", "b", "c"]),
        ),
    ],
)
def test_arrays_are_taken_wherever_what_is_asked_stands(compiler, schema, valid, invalid):
    grammar = compiler.compile({"type": "array", **schema})
    assert [value for value in valid if not takes_any(grammar, value, schema)] == []
    assert [value for value in invalid if takes_any(grammar, value, schema)] == []


@pytest.mark.parametrize(
    ("names", "valid", "invalid"),
    [
        (
            {"oneOf": [{"enum": ["ab", "A B"]}, {"pattern": "^[a-z]+$"}]},
            ("A B", "abc"),
            ("ab", "A"),
        ),
        ({"pattern": "^a", "minLength": 2, "maxLength": 3}, ("ab", "abc"), ("a", "abcd", "bc")),
        ({"allOf": [{"pattern": "^a"}, {"not": {"pattern": "z"}}]}, ("a", "ay"), ("az", "b")),
        ({"minLength": 2, "maxLength": 1}, (), ("", "a", "ab")),
        ({"minLength": 3, "maxLength": 1, "pattern": "^a"}, (), ("a", "ab", "abc")),
    ],
)
def test_names_of_several_conditions_meet_all(compiler, names, valid, invalid):
    schema = {"type": "object", "propertyNames": names}
    grammar = compiler.compile(schema)
    assert [name for name in valid if not takes_any(grammar, {name: 1}, schema)] == []
    assert [name for name in invalid if takes_any(grammar, {name: 1}, schema)] == []


_NAMES = {
    "listed": {"enum": ["a", "b"]},
    "marked": {"type": "string", "pattern": "^x_"},
    "long": {"$ref": "#/$defs/marked", "minLength": 4},
    "others": {"not": {"$ref": "#/$defs/marked"}},
}


@pytest.mark.parametrize(
    ("names", "valid", "invalid"),
    [
        ({"$ref": "#/$defs/listed", "description": "of a column"}, ("a", "b"), ("c",)),
        (
            {"anyOf": [{"$ref": "#/$defs/listed"}, {"$ref": "#/$defs/long"}]},
            ("a", "x_ab"),
            ("x_a", "c"),
        ),
        ({"$ref": "#/$defs/others"}, ("a", "y_"), ("x_",)),
        ({"not": {"$ref": "#/$defs/others"}}, ("x_",), ("a",)),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_names_behind_references(compiler, names, valid, invalid, negated):
    asked = {"propertyNames": names}
    schema = {"type": "object", "$defs": _NAMES, **({"not": asked} if negated else asked)}
    grammar = compiler.compile(schema)
    if negated:
        valid, invalid = invalid, valid
    assert [name for name in valid if not takes_any(grammar, {name: 1}, schema)] == []
    assert [name for name in invalid if takes_any(grammar, {name: 1}, schema)] == []


_CIRCLE = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}


@pytest.mark.parametrize(
    "asked",
    [
        {"propertyNames": {"$ref": "#/$defs/a"}},
        {"propertyNames": {"anyOf": [{"const": "a"}, {"$ref": "#/$defs/a"}]}},
        {"propertyNames": {"$ref": "#"}, "minProperties": 1},
        {"items": {"$ref": "#/$defs/a"}, "uniqueItems": True},
    ],
)
def test_references_in_a_circle_are_refused(asked: Any) -> None:
    without_guard = backend_spec("llguidance").enforced()
    with pytest.raises(UnsupportedGuide, match="it leads back to itself"):
        next(core_schemas({**asked, "$defs": _CIRCLE}, without_guard))


def test_a_base_of_subtypes_that_refer_to_it_is_refused_soon() -> None:
    """As OpenAPI's documents have it, where the base names its subtypes."""
    subtypes = {
        name: {"allOf": [{"$ref": "#"}, {"required": ["kind"], "properties": {"kind": of}}]}
        for name, of in (("A", {"const": "A"}), ("B", {"const": "B"}))
    }
    base = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in subtypes], "$defs": subtypes}
    able = backend_spec("llguidance").enforced()
    with (
        Budget(5_000).counting(),
        pytest.raises(UnsupportedGuide, match=r"/\$defs/[AB]/allOf/0/\$ref .* leads back"),
    ):
        next(core_schemas(base, able))
    inside = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    assert next(core_schemas({"oneOf": [inside, {"type": "null"}]}, able))


@pytest.mark.parametrize("any_name", [".*", "", "^x*"])
@pytest.mark.parametrize("of_others", [True, False, TEXT])
def test_a_pattern_of_any_name_speaks_of_all_properties(any_name: str, of_others: Any) -> None:
    schema = {
        "properties": {"a": {"minimum": 3}, "b": INTEGER},
        "patternProperties": {"^c": {"maximum": 5}, any_name: INTEGER},
        "additionalProperties": of_others,
    }
    core = next(core_schemas(schema, ABLE))
    assert isinstance(core.root, Node)
    assert len(core.root.kinds.objects.patterns) == 1
    for name, value in product("abcd", (1, 4, 7, "x")):
        instance = {name: value}
        assert takes(core.root, instance, core.definitions) == is_valid(schema, instance)


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^a": INTEGER}, "unevaluatedProperties": False},
        {"patternProperties": {"^a": INTEGER}, "unevaluatedProperties": TEXT},
        {"patternProperties": {"^a": INTEGER, "^(?:a)": {"minimum": 3}}},
        {"patternProperties": {"^[a]": {"minimum": 3}, "^a.*": INTEGER, "^a": True}},
    ],
)
def test_patterns_of_the_same_names_ask_all_that_each_asks(compiler, schema):
    schema = {"type": "object", **schema}
    grammar = compiler.compile(schema)
    for name, value in product(("a", "ab"), (1, 4, "x")):
        assert takes_any(grammar, {name: value}, schema) == is_valid(schema, {name: value})


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"additionalProperties": TEXT},
        {"additionalProperties": TEXT, "properties": {"p": {"type": "boolean"}}},
        {"unevaluatedProperties": TEXT},
        {"additionalProperties": False},
        {"required": ["a"]},
    ],
)
@pytest.mark.parametrize("pattern", [r"^\d(.*-)?$", r"^(?!a|p$)\w*-?$", r"^(?=\d)[^ap]+$"])
def test_others_may_come_beside_names_that_engines_match_differently(compiler, pattern, others):
    schema = {"type": "object", "patternProperties": {pattern: INTEGER}, **others}
    grammar = compiler.compile(schema)
    for name, value in product(("a", "1", "1x-", "1x", "p", ""), (1, "x", True)):
        instance = {"a": "x", name: value}
        assert takes_any(grammar, instance, schema) == is_valid(schema, instance), instance


@pytest.mark.parametrize(
    ("patterns", "name", "others"),
    [
        ({"^.$": INTEGER, r"^\s$": {"minimum": 3}}, "\r", [True, False, TEXT]),
        ({"^.$": INTEGER, r"^\s$": {"minimum": 3}}, "\u2028", [True, False, TEXT]),
        ({r"^\w$": INTEGER, "^[b-é]$": {"minimum": 3}}, "é", [True, False, TEXT]),
        ({r"^\w$": {"minimum": 3}}, "é", [True, False, INTEGER]),
    ],
)
def test_a_name_has_a_value_that_is_right_however_engines_match_it(
    compiler, patterns, name, others
):
    named = {} if len(patterns) > 1 else {"properties": {name: INTEGER}}
    for additional in others:
        schema = {**named, "patternProperties": patterns, "additionalProperties": additional}
        grammar = compiler.compile({"type": "object", **schema})
        assert takes_any(grammar, {name: 4}, schema)
        assert not any(takes_any(grammar, {name: value}, schema) for value in (1, "x", True))
        assert takes_any(grammar, {"ab": 1}, schema) == is_valid(schema, {"ab": 1})


@pytest.mark.parametrize("more", [{}, {"additionalProperties": TEXT, "properties": {"q": True}}])
@pytest.mark.parametrize("pattern", ["^[a-zA-Z0-9]+$", "^a.*"])
def test_long_names_are_told_apart_by_patterns_and_lengths(compiler, pattern, more):
    schema = {"patternProperties": {pattern: INTEGER}, "propertyNames": {"maxLength": 255}, **more}
    grammar = compiler.compile({"type": "object", **schema})
    for name, value in product(("a", "-", "q", "a" * 255, "a" * 256, "-" * 256), (1, "x")):
        instance = {name: value}
        assert takes_any(grammar, instance, schema) == is_valid(schema, instance), instance


@pytest.mark.parametrize(
    "patterns",
    [
        {r"^[a-z_]{0,246}_bin$": INTEGER, r"^[a-z_]{3,250}$": {"minimum": 3}},
        {
            r"^[a-z][a-z_]{0,245}_bin$": INTEGER,
            r"^[a-z][a-z_]{0,245}_hex$": TEXT,
            r"^([a-z][a-z_]{2,249})|id$": {"minimum": 3},
        },
        {r"^[a-z_]{3,250}$": INTEGER, r"^[a-z_]{0,250}$": {"minimum": 3}, "MD5|_bin": INTEGER},
    ],
)
def test_patterns_of_long_names_may_overlap(compiler, patterns):
    schema = {
        "type": "object",
        "properties": {"kind_of_name": True},
        "patternProperties": patterns,
        "additionalProperties": False,
    }
    grammar = compiler.compile(schema)
    for name in ("a_bin", "a_hex", "abc", "ab", "1_id", "kind_of_name", "a" * 246 + "_bin"):
        for value in (1, 4, "x"):
            instance = {name: value}
            assert takes_any(grammar, instance, schema) == is_valid(schema, instance), instance


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"^[a-z]+$": INTEGER}, "propertyNames": {"maxLength": 255}},
        {
            "propertyNames": {"maxLength": 1024},
            "additionalProperties": INTEGER,
            "allOf": [{"propertyNames": {"anyOf": [{"pattern": "^[a-z]+$"}, {"minLength": 1030}]}}],
        },
    ],
)
def test_patterns_of_names_may_be_far_longer_than_they_are(compiler, schema):
    schema = {"additionalProperties": False, **schema, "type": "object"}
    grammar = compiler.compile(schema)
    for name, value in (("ab", 1), ("ab", "x"), ("A", 1), ("a" * 200, 1), ("a" * 1025, 1)):
        assert takes_any(grammar, {name: value}, schema) == is_valid(schema, {name: value}), name


@pytest.mark.parametrize(
    "names",
    [
        {"pattern": "^[a-z]{1,3}$"},
        {"maxLength": 253, "pattern": "^[a-z]([-a-z]*[a-z])?(\\.[a-z]([-a-z]*[a-z])?)*$"},
        {"maxLength": 2, "not": {"const": "c"}},
        {"enum": ["a", "b"]},
        {"pattern": "^a$"},
    ],
)
def test_under_names_the_others_are_not_the_named_ones(compiler, names):
    schema = {
        "type": "object",
        "properties": {"a": TEXT, "c": True},
        "required": ["a"],
        "propertyNames": names,
        "additionalProperties": INTEGER,
    }
    grammar = compiler.compile(schema)
    for name, first, value in product("abcD", ("x", 1), (1, "x")):
        instance = {"a": first, name: value}
        assert takes_any(grammar, instance, schema) == is_valid(schema, instance), instance


def test_listed_arrays_may_have_their_distinct_items(compiler):
    listed = [["x", "a"], ["x"], [1, "a"], ["x", "x"]]
    schema = {"type": "array", "uniqueItems": True, "anyOf": [{"const": one} for one in listed]}
    grammar = compiler.compile(schema)
    assert [one for one in listed if takes_any(grammar, one, schema)] == listed[:3]


LONG = {"pattern": "^[a-z]{1,30}([.][a-z]{1,30})*$", "maxLength": 40}


@pytest.mark.parametrize(
    "names",
    [
        {"anyOf": [LONG, {"enum": ["$a", "b.c"]}]},
        {"anyOf": [{"allOf": [LONG, {"not": {"const": "a"}}]}, {"enum": ["$a"]}]},
        {"anyOf": [{**LONG, "not": {"pattern": "^b.{30}$|^bb"}}, {"pattern": "^[$]a?$"}]},
        {"anyOf": [{**LONG, "not": {"pattern": "^b.{30}$|^bb"}}, {"pattern": "^b{2,4}$"}]},
    ],
)
@pytest.mark.parametrize("values", [True, INTEGER])
def test_one_of_several_names_is_too_long_to_write_down(compiler, names, values) -> None:
    schema = {"type": "object", "propertyNames": names, "additionalProperties": values}
    grammar = compiler.compile(schema)
    found = ("$a", "$", "a", "b.c", "bb", "b" * 5, "b" * 31, "a" * 31, ".".join("abc" * 7), "A")
    for instance in ({name: 1} for name in found):
        assert takes_any(grammar, instance, schema) == is_valid(schema, instance), instance
