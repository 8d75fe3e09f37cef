"""Keys in any order: the guard, native and over matchers in Python, compared with what `json` and
`jsonschema` read."""

from __future__ import annotations

import itertools
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from byte_walks import ByteWalks
from closed_objects import closed
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, InvalidParams, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import create_backend
from specguide.guided.compile import GrammarCompiler
from specguide.guided.select import rewrites
from specguide.guided.wrappers.key_order import in_any_order
from specguide.guided.wrappers.keys import KeyedGrammar, KeyGuard

MERGED = (
    *('",', '","', '"}', '{"', '{"a', '"a"', '":', '":1', '"a":', "},{", "{}", ', "', '", "'),
    *(',"a":1', "}}", "[{", '"ab', '"}}', "1}", "1,", '"k":"', ',\n "', "false", "\\u0061"),
)
WALKS = ByteWalks(MERGED)
TOKENS, VOCABULARY = WALKS.tokens, WALKS.vocabulary
takes, allowed = WALKS.takes, WALKS.allowed


ONE, WORD = {"const": 1}, {"type": "string", "maxLength": 2}
KINDS = {
    "anyOf": [
        closed({"k": {"const": "a"}, "a": ONE, "b": ONE}, "k", "a"),
        closed({"k": {"const": "b"}, "ab": WORD, "b": ONE}, "k", "ab"),
        {"type": "object", "properties": {"k": False}, "required": ["c", "d"]},
    ]
}
TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": closed(
            {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}, "v": ONE}, "v"
        )
    },
}
NEEDY = closed({"a": ONE, "b": ONE, "c": ONE}, dependentRequired={"a": ["b"], "b": ["c"]})
CASES: list[tuple[Any, list[str], list[str]]] = [
    (
        closed({"a": ONE, "ab": WORD, "c": closed({"x": ONE}, "x")}, "a", "c"),
        ['{"a":1,"c":{"x":1}}', '{"c": {"x":1}, "ab":"", "a":1}'],
        ['{"a":1}', '{"a":1,"a":1,"c":{"x":1}}', '{"c":{},"a":1}', '{"a":1,"c":{"x":1},"d":1}'],
    ),
    (
        {"type": "object", "properties": {"a": ONE}, "required": ["b"]},
        ['{"z":[{"a":2}],"a":1,"b":null}', '{"b":1}', '{"\\"":1,"b":{},"\\\\":2}'],
        ['{"z":1,"z":1,"b":1}', '{"a":1}', '{"a":2,"b":1}', '{"\\"":1,"\\"":1,"b":1}'],
    ),
    (
        KINDS,
        ['{"k":"a","a":1}', '{"b":1,"a":1,"k":"a"}', '{"ab":"","k":"b"}', '{"d":1,"z":2,"c":3}'],
        ['{"k":"a"}', '{"k":"b","a":1}', '{"c":1}', '{"k":"a","c":1,"d":1}', '{"k":"b"}'],
    ),
    (
        closed({"a": ONE, "b": ONE, "c": ONE, "d": ONE}, "d", minProperties=2, maxProperties=3),
        ['{"d":1,"a":1}', '{"c":1,"a":1,"d":1}'],
        ['{"d":1}', '{"a":1,"b":1,"c":1}', '{"a":1,"b":1,"c":1,"d":1}'],
    ),
    (
        {"type": "object", "minProperties": 3, "additionalProperties": ONE},
        ['{"a":1,"b":1,"":1}'],
        ['{"a":1,"b":1}', '{"a":1,"b":1,"a":1}'],
    ),
    (
        {
            "type": "object",
            "patternProperties": {"^[ab]$|^x+$": ONE},
            "additionalProperties": False,
        },
        ['{"x":1,"b":1,"xx":1,"a":1}', "{}"],
        ['{"a":1,"a":1}', '{"ab":1}', '{"x":1,"x":1}'],
    ),
    (
        {"items": {"type": "object", "required": ["b"], "propertyNames": {"pattern": "^[a-x]"}}},
        ['[{"b":1}]', '[{"c":2,"b":null,"a":1}]'],
        ["[{}]", '[{"a":1}]', '[{"z":1,"b":1}]'],
    ),
    (TREE, ['{"kids":[{"v":1},{"kids":[],"v":1}],"v":1}'], ['{"kids":[]}', '{"v":1,"v":1}']),
    (
        NEEDY,
        ["{}", '{"c":1}', '{"c":1,"b":1,"a":1}', '{"b":1,"c":1}'],
        ['{"a":1}', '{"a":1,"b":1}', '{"b":1}'],
    ),
    (
        {"enum": [{"a": 1, "b": [{"c": 1, "d": 2}]}, {"a": 2}, 3]},
        ['{"b":[{"d":2,"c":1}],"a":1}', '{"a":2}', "3"],
        ['{"a":1}', '{"a":2,"b":[]}', '{"a":1,"b":[{"c":1}]}'],
    ),
    (
        {"type": "array", "uniqueItems": True, "items": closed({"a": ONE, "b": ONE})},
        ['[{"a":1,"b":1},{"b":1}]', "[{}]"],
        ['[{"a":1,"b":1},{"b":1,"a":1}]', '[{"a":1,"a":1}]'],
    ),
    (
        {
            "anyOf": [
                closed({"k": {"const": "a"}, "a": ONE}, "k", "a"),
                {
                    "type": "object",
                    "additionalProperties": {"const": False},
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            ]
        },
        ['{"k":"a","a":1}', '{"a":1,"k":"a"}', '{"z":false}'],
        ['{"k":"a"}', "{}", '{"y":false,"z":false}', '{"k":"a","z":false}'],
    ),
    (
        {"type": "object", "anyOf": [{"required": ["b"]}, closed({"a": ONE}, maxProperties=0)]},
        ["{}", '{"b":1}', '{"a":1,"b":1}'],
        ['{"a":1}', '{"b":1,"b":1}'],
    ),
]
SCHEMAS = [case[0] for case in CASES]
NAMES = [json.dumps(schema)[:60] for schema in SCHEMAS]
HOWS = ("native", "python")
# Which cases are walked at random: over matchers in Python nothing guards distinct items.
WALKED = {
    "native": range(len(CASES) - 1),
    "python": [i for i in range(len(CASES) - 1) if "uniqueItems" not in SCHEMAS[i]],
}


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, GuideConfig(key_order="any"))


@cache
def grammar_of(how: str, index: int) -> Any:
    if how == "native":
        return compiler().compile(Guide(json_schema=SCHEMAS[index]))
    backend, config = create_backend("llguidance", VOCABULARY, native=False), GuideConfig()
    for rewritten in rewrites(Guide(json_schema=SCHEMAS[index]), "llguidance", "any"):
        try:
            freed = in_any_order(rewritten)
            compiled = backend.compile(backend.write(freed, config), config)
        except UnsupportedGuide:
            continue
        return KeyGuard(VOCABULARY).guard(compiled, vars(freed.keys))
    raise AssertionError("no rules")


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_what_is_valid_is_taken_and_what_is_not_is_refused(how, index):
    schema, valid, invalid = CASES[index]
    if how == "python" and "uniqueItems" in schema:
        valid, invalid = valid, invalid[1:]
    grammar = grammar_of(how, index)
    assert [text for text in valid + invalid if takes(grammar, text)] == valid


@pytest.mark.parametrize("how", HOWS)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_walks_with_rollbacks_hold_the_contract(how, data):
    """The checks of `ByteWalks.walk`; and what has ended is an instance without a repeated key."""
    choose = data.draw(st.randoms(use_true_random=False))
    index = choose.choice(WALKED[how])
    matcher = grammar_of(how, index).matcher()
    text = WALKS.walk(matcher, choose, LIKELY, 60)
    if text is not None:
        jsonschema.validate(json.loads(text, object_pairs_hook=unique_pairs), SCHEMAS[index])


def test_that_no_key_is_left_is_found_out_in_time():
    """Of hundreds of names that have come, each is looked at once."""
    names = ["".join(chosen) for chosen in itertools.permutations("abcdef", 5)]
    schema = closed(dict.fromkeys(names, ONE), patternProperties={"^x_": ONE})
    matcher = compiler().compile(Guide(json_schema=schema)).matcher()
    begin_s = time.perf_counter()
    for token in ("{" + ",".join(f'"{name}":1' for name in names) + ',"').encode():
        assert matcher.accept(token)
        found = allowed(matcher)
    assert time.perf_counter() - begin_s < 5
    assert found == [ord("x")]


LIKELY = {text.encode() for text in (*'[]{}",:abckdvx1', *MERGED)}


@pytest.mark.parametrize("index", range(4))
def test_every_order_is_taken_and_nothing_else(index):
    """All objects of some members, in every order, are taken just where they are instances."""
    schema, grammar = SCHEMAS[index], grammar_of("native", index)
    members = ['"a":1', '"b":1', '"c":{"x":1}', '"d":1', '"k":"a"', '"ab":"x"']
    for num in range(4):
        for chosen in itertools.permutations(members, num):
            text = "{" + ",".join(chosen) + "}"
            is_valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
            assert takes(grammar, text) == is_valid, text


def test_a_comma_that_leads_nowhere_is_not_allowed():
    matcher = grammar_of("native", 0).matcher()
    for byte in b'{"c":{"x":1':
        assert matcher.accept(byte)
    assert ord(",") not in allowed(matcher)
    for byte in b'},"ab":"","a':
        assert matcher.accept(byte)
    assert allowed(matcher) == [ord('"'), VOCABULARY.token_bytes.index(b'":'), *_longer(b'":1')]


def _longer(text: bytes) -> list[int]:
    return [VOCABULARY.token_bytes.index(text)]


def test_forced_text_names_the_last_key():
    matcher = grammar_of("native", 0).matcher()
    for byte in b'{"c":{"x":1},"ab":"",':
        assert matcher.accept(byte)
    for byte in b'"':
        assert matcher.accept(byte)
    forced = b"".join(TOKENS[token] for token in matcher.forced_tokens())
    assert forced.startswith(b'a"')


def test_thousands_of_keys_and_of_open_arrays():
    matcher = grammar_of("native", 4).matcher()
    for byte in b"{" + b",".join(b'"k%d":1' % i for i in range(1_000)) + b',"k77':
        assert matcher.accept(byte)
    assert ord('"') not in allowed(matcher)
    assert ord("_") in allowed(matcher)
    deep = compiler().compile(Guide(json_schema=True)).matcher()
    for _ in range(20_000):
        assert deep.accept(ord("["))
    deep.rollback(20_000)


def test_a_long_key_is_kept_once():
    """Not before each of its tokens; and rollbacks lead back into it."""
    matcher, size = grammar_of("native", 4).matcher(), 20_000
    before = resident_bytes()
    for byte in b'{"a":1,"' + b"a" * size + b'":1,"':
        assert matcher.accept(byte)
    assert resident_bytes() - before < 50 << 20
    matcher.rollback(size + 4)
    assert allowed(matcher) != [] and not matcher.accept(ord('"'))
    assert matcher.accept(ord("a")) and matcher.accept(ord('"'))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_guide_says_it_or_the_engine_does(new_compiler):
    one = new_compiler(VOCABULARY)
    guide = Guide(json_schema=SCHEMAS[0], key_order="any")
    assert isinstance(one.compile(guide), KeyedGrammar)
    fixed = one.compile(Guide(json_schema=SCHEMAS[0]))
    assert not isinstance(fixed, KeyedGrammar)
    assert not takes(fixed, CASES[0][1][1])
    said = compiler().compile(Guide(json_schema=SCHEMAS[0], key_order="schema"))
    assert not isinstance(said, KeyedGrammar)


def test_json_object_has_no_key_twice():
    grammar = compiler().compile(Guide(json_object=True))
    assert takes(grammar, '{"a":{"a":1},"b":[{"a":1}]}')
    assert not takes(grammar, '{"a":[{"b":1,"b":1}]}')


def test_unknown_orders_are_refused():
    with pytest.raises(InvalidGuide, match="key_order must be 'schema' or 'any'") as refusal:
        Guide(json_schema=True, key_order="random")
    assert refusal.value.param == "key_order"
    with pytest.raises(InvalidParams, match="key_order"):
        GuideConfig(key_order="random")


def test_xgrammar_says_that_it_fixes_the_order():
    with pytest.raises(UnsupportedGuide, match='key_order "schema"'):
        compiler().compile(Guide(json_schema=SCHEMAS[0], backend="xgrammar"))


def test_objects_that_cannot_be_told_apart_are_refused_by_name():
    names = [f"n{i}" for i in range(12)]
    whole = {"type": "object", "properties": {"k": {"const": 1}}, "required": [*names, "k"]}
    other = {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]}
    with pytest.raises(UnsupportedGuide, match="more than 8 of its properties") as refusal:
        compiler().compile(Guide(json_schema={"anyOf": [whole, other]}, backend="llguidance"))
    assert refusal.value.path == "/anyOf/0/required"


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "number", "multipleOf": 3.7, "minimum": 0.1, "maximum": 30}, "multipleOf"),
        ({"anyOf": [closed({"a": ONE, f"n{i}": ONE}, f"n{i}") for i in range(70)]}, "anyOf"),
    ],
)
def test_what_has_no_rules_is_refused_by_name(schema, keyword):
    with pytest.raises(UnsupportedGuide, match=keyword) as refusal:
        compiler().compile(Guide(json_schema=schema, backend="llguidance"))
    assert refusal.value.keyword == keyword


def test_places_that_are_not_there_are_refused():
    place = native.KeyPlace(options=[], names={'"a"': 7}, other=-1, prefix=[], rest=-1)
    with pytest.raises(ValueError, match="no place 7"):
        native.KeyPlaces([place])


def test_what_no_order_of_the_schema_enforces_is_served_in_any_order(new_compiler):
    """Unnamed properties are counted by the guard alone."""
    schema = {"type": "object", "minProperties": 3}
    grammar = new_compiler(VOCABULARY).compile(Guide(json_schema=schema))
    assert takes(grammar, '{"b":1,"a":2,"c":3}')
    assert not takes(grammar, '{"b":1,"a":2}')
    assert not takes(grammar, '{"b":1,"b":2,"c":3}')


def test_no_row_leads_to_objects_that_must_contain_themselves():
    endless = {"endless": closed({"n": {"$ref": "#/$defs/endless"}}, "n")}
    choice = {"anyOf": [{"$ref": "#/$defs/endless"}, ONE]}
    part = {"properties": {"b": choice}, "required": ["b"]}
    for schema in (
        closed({"a": ONE, "b": choice, "c": {"$ref": "#/$defs/endless"}}, "b"),
        {"properties": {"a": ONE, "b": True}, "additionalProperties": False, "allOf": [part]},
    ):
        grammar = compiler().compile(
            Guide(json_schema={"type": "object", **schema, "$defs": endless})
        )
        assert takes(grammar, '{"b":1,"a":1}') and takes(grammar, '{"a":1,"b":1}')
        for text in ('{"b":{', '{"a":1,"b":{', '{"c":'):
            matcher = grammar.matcher()
            assert not all(map(matcher.accept, text.encode())), text
    for schema in ({"$ref": "#/$defs/endless"}, closed({"a": {"$ref": "#/$defs/endless"}}, "a")):
        with pytest.raises(UnsupportedGuide, match="no value"):
            compiler().compile(Guide(json_schema={**schema, "$defs": endless}))
