"""Arrays of distinct items: the guard over every backend, native and through Python, compared with
what `json` reads."""

from __future__ import annotations

import itertools
import json
import random
import time
from functools import cache
from typing import Any

import jsonschema
import pytest
from byte_walks import ByteWalks
from grammar_backends import WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import backend_spec, create_backend
from specguide.guided.compile import GrammarCompiler
from specguide.guided.known.items import KnownItems
from specguide.guided.schema.json_values import value_key
from specguide.guided.schema.places.distinct import distinct_places
from specguide.guided.select import rewrites
from specguide.guided.wrappers.distinct import DistinctGrammar, DistinctItems

MERGED = (
    *('",', '","', '"]', '","a', '"a"', '"a","', "1,", ",1", "1,1", "[1,1]", "0e", "e1", ".0"),
    *('"mon', 'day"', "},{", '{"a":', '":', "[[", "],[", ", ", "10", "00", "\\u0061", "ue"),
)


WALKS = ByteWalks(MERGED)


TOKENS, END, VOCABULARY = WALKS.tokens, WALKS.end, WALKS.vocabulary


takes, allowed = WALKS.takes, WALKS.allowed


IDS = {text: token for token, text in enumerate(TOKENS)}


KINDS = [f"{name}-{how}" for name in WHOLE for how in ("native", "python")]


def arrays(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


WORDS = arrays({"enum": ["mon", "monday", "tue", 1, None, True]}, minItems=5)


FEW = arrays({"type": "integer", "minimum": 0, "maximum": 3}, minItems=2)


LETTERS = arrays({"type": "string", "pattern": "^[ab]{2}$"}, minItems=4)


CLOSED = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}, "b": {"enum": ["x"]}},
    "required": ["a"],
    "additionalProperties": False,
}


TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"kids": arrays({"$ref": "#/$defs/tree"}), "v": {"type": "integer"}},
            "additionalProperties": False,
        }
    },
}


PAIR = {"type": "array", "prefixItems": [{"type": "boolean"}] * 2, "uniqueItems": True}


TOLD = {**PAIR, "items": {"enum": [True, 12, False, None, 1]}}


def told_apart(*prefix: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": list(prefix), "uniqueItems": True, **more}


def keyed(kind: str) -> dict[str, Any]:
    properties = {"kind": {"const": kind}, "name": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["kind", "name"]}


KEYS = told_apart(keyed("hash"), {"$ref": "#/$defs/range"}, items=False)


TYPES = told_apart({"type": "integer"}, {"type": "boolean"}, items={"enum": [1, 12, True, False]})


CASES = [
    (arrays({"type": "string"}), ['["a","b","aa"]', "[]"], ['["a","a"]', '["a","\\u0061"]']),
    (arrays({"type": "integer"}), ["[1,2,11]", "[0,10]"], ["[1,1]", "[0, -0]", "[1,2,1]"]),
    (arrays({"type": "number"}), ["[1,1.5]"], ["[1,1.0]", "[0,-0.0]", "[100,1e2]"]),
    (FEW, ["[1,2,3,0]"], ["[1]", "[1,1]", "[0,0]"]),
    (WORDS, ['["tue","mon","monday",null,true,1]'], ['["mon","mon",1,null,true]']),
    (LETTERS, ['["aa","ab","ba","bb"]'], ['["aa","ab","ba","ba"]']),
    (arrays({"type": "string", "maxLength": 1}), ['["","a","b"]'], ['["",""]', '["a","a"]']),
    (arrays(CLOSED), ['[{"a":1},{"a":1,"b":"x"},{"a":2}]'], ['[{"a":1},{"a": 1}]']),
    (arrays({"type": "object"}), ['[{"a":1,"b":2},{"b":1}]'], ['[{"a":1,"b":2},{"b":2,"a":1}]']),
    (arrays(True), ['[1,"1",true,null,[1],{"a":1}]'], ["[[1],[1.0]]", "[{},{}]", "[true,true]"]),
    (
        arrays(arrays({"type": "boolean"})),
        ["[[true],[false],[true,false],[]]"],
        ["[[true,true]]", "[[true],[true]]", "[[],[]]"],
    ),
    (PAIR, ['[true,false,"a"]', "[true]", "[]"], ["[true,true]", "[true,false,true]"]),
    (TOLD, ["[true,false,null,1,12]", "[false]"], ["[true,false,true]", "[true,false,1,1]"]),
    (
        {**KEYS, "$defs": {"range": keyed("range")}},
        ['[{"kind":"hash","name":"a"},{"kind":"range","name":"a"}]', "[]"],
        ['[{"kind":"hash","name":"a"},{"kind":"hash","name":"b"}]'],
    ),
    (TYPES, ["[1,true,12,false]", "[12]"], ["[1,true,1]", "[12,false,1,false]", "[3,3]"]),
    (
        arrays(arrays({"enum": [1, 2, 12]}, minItems=2)),
        ["[[1,2],[1,12],[2,12,1]]"],
        ["[[1]]", "[[1,2],[1,2]]", "[[1,1]]"],
    ),
    (TREE, ['{"kids":[{"v":1},{"v":2},{"kids":[]}]}'], ['{"kids":[{"v":1},{"v":1}]}']),
]


SCHEMAS = [case[0] for case in CASES]


NAMES = [json.dumps(schema)[:60] for schema in SCHEMAS]


@cache
def grammar_of(kind: str, index: int) -> DistinctGrammar:
    name, how = kind.split("-")
    return guarded(name, SCHEMAS[index], native=how == "native")


def guarded(name: str, schema: Any, *, native: bool = True) -> DistinctGrammar:
    backend, config = create_backend(name, VOCABULARY, native=native), GuideConfig()
    rewritten = next(rewrites(Guide(json_schema=schema), name))
    compiled = backend.compile(backend.write(rewritten, config), config)
    places = distinct_places(rewritten.value)
    return DistinctItems(VOCABULARY).guard(compiled, vars(KnownItems(places)), in_any_order=False)


def repeats(items: list[Any]) -> bool:
    """Whether an array holds an item twice."""
    keys = [value_key(item) for item in items]
    return len(set(keys)) < len(keys)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_what_is_valid_is_taken_and_what_is_not_is_refused(kind, index):
    _, valid, invalid = CASES[index]
    grammar = grammar_of(kind, index)
    assert [text for text in valid + invalid if takes(grammar, text)] == valid


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_walks_with_rollbacks_hold_the_contract(kind, data):
    """The checks of `ByteWalks.walk`; and what has ended is valid."""
    choose = data.draw(st.randoms(use_true_random=False))
    index = choose.randrange(len(CASES))
    matcher = grammar_of(kind, index).matcher()
    text = WALKS.walk(matcher, choose, LIKELY, 40)
    if text is not None:
        jsonschema.Draft202012Validator(SCHEMAS[index]).validate(json.loads(text))


LIKELY = {
    text.encode()
    for text in (*'[]{}",:ab01.-tfnmouyeulrsxkdv', *MERGED)
    if text not in ("0e", "e1")
}


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_only_repetitions_are_taken_out(index):
    """Over short texts of an array of few values all that the grammar takes without the guard."""
    grammar = grammar_of("llguidance-native", index)
    for items in itertools.product(("0", "1", '"aa"', '"ab"', "true", "[]", "{}"), repeat=3):
        text = f"[{','.join(items)}]"
        inner = grammar.inner.matcher()
        is_taken = all(inner.accept(byte) for byte in text.encode()) and inner.accept(END)
        assert takes(grammar, text) == (is_taken and not repeats(json.loads(text)))


def test_forced_text_has_no_repetition():
    matcher = grammar_of("llguidance-native", SCHEMAS.index(WORDS)).matcher()
    for byte in b'["mon","monday","tue",1,null':
        assert matcher.accept(byte)
    assert b"".join(TOKENS[token] for token in matcher.forced_tokens()) in (b"", b",true]")
    assert matcher.accept(IDS[b","])
    forced = b"".join(TOKENS[token] for token in matcher.forced_tokens())
    assert forced.startswith(b"true") or allowed(matcher) != []


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            arrays({"enum": [1, 1.0, 2]}, minItems=3),
            "fewer than 3 different values; lower minItems",
        ),
        (
            arrays({"type": "integer", "minimum": 0, "maximum": 3}, minItems=9),
            "fewer than 9 different values",
        ),
        (
            {
                "type": "array",
                "uniqueItems": True,
                "prefixItems": [{"type": "integer"}, {"type": ["integer", "boolean"]}],
            },
            "run out of distinct values",
        ),
        (
            {**arrays(True), "anyOf": [{"enum": [[1]]}, {"enum": [[2, 2]]}]},
            "an enum or const lists arrays beside it",
        ),
    ],
)
def test_arrays_that_could_come_to_no_end_are_refused(schema, why):
    able = backend_spec("llguidance").enforced()
    assert able.keywords["uniqueItems"].unless is None
    rewritten = next(rewrites(Guide(json_schema=schema), "llguidance"))
    with pytest.raises(UnsupportedGuide, match=why) as refusal:
        distinct_places(rewritten.value)
    assert (refusal.value.keyword, refusal.value.path) == ("uniqueItems", "/uniqueItems")


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [arrays({"type": "integer"}), arrays({"enum": ["x"]})]},
        {"anyOf": [arrays({"type": "string"}), {"enum": [[1, 2], [1, 4], [3]]}]},
        {**arrays({"enum": ["a", "b"]}), "anyOf": [{"maxItems": 1}, {"items": {"const": "a"}}]},
        {
            "anyOf": [
                {"type": "object", "properties": {"a": arrays({"enum": ["x"]})}},
                {"type": "object", "properties": {"a": arrays({"type": "integer"})}},
            ]
        },
        {
            "anyOf": [
                {"type": "array", "items": arrays({"type": "string"})},
                {"enum": [[[1, 2]], [[1, 3, 4]]]},
            ]
        },
    ],
)
def test_a_choice_of_arrays_comes_to_no_dead_end(schema):
    grammar = guarded("llguidance", schema)
    for seed in range(150):
        rng, matcher = random.Random(seed), grammar.matcher()
        for _ in range(30):
            token = rng.choice(allowed(matcher))
            assert matcher.accept(token)
            if matcher.is_terminated:
                break


def test_thousands_of_items():
    matcher = grammar_of("llguidance-native", 1).matcher()
    for byte in b"[" + b",".join(b"%d" % i for i in range(2_000)):
        assert matcher.accept(byte)
    assert IDS[b","] in allowed(matcher)
    assert matcher.accept(IDS[b","]) and matcher.accept(IDS[b"7"])
    assert IDS[b","] not in allowed(matcher)


def test_an_item_behind_thousands_takes_no_longer_than_the_first():
    matcher = grammar_of("llguidance-native", 1).matcher()
    begin_s = time.thread_time()
    for byte in b"[" + b",".join(b"%d" % i for i in range(15_000)):
        assert matcher.accept(byte)
    for _ in range(1_000):  # drafts
        assert all(map(matcher.accept, b",99999,")) and IDS[b"1,1"] not in allowed(matcher)
        matcher.rollback(7)
        assert not matcher.accept(IDS[b"1,1"])
    assert time.thread_time() - begin_s < 5


def test_long_items_of_which_few_are_left_are_settled_in_time():
    one, other = "a" * 8_000, "b" * 8_000
    matcher = guarded("llguidance", arrays({"enum": [one, other]})).matcher()
    begin_s = time.perf_counter()
    for byte in f'["{one}","'.encode():
        assert matcher.accept(byte)
    assert allowed(matcher) == [ord("b")]
    assert time.perf_counter() - begin_s < 3


def test_what_could_only_be_there_already_is_not_begun():
    member = {"b": {"enum": [[1], "x"]}, "c": {"const": 1}}
    closed = {"type": "object", "properties": member, "required": [*member]}
    for items, text in (
        (arrays({**closed, "additionalProperties": False}), b'[{"b":"x","c":1},{"b":'),
        (told_apart({"type": "number"}, items={"enum": [1, 2]}), b"[1.0,"),
    ):
        matcher = guarded("llguidance", items).matcher()
        for byte in text:
            assert matcher.accept(byte)
        found = {chr(token) for token in allowed(matcher) if token < 256}
        assert found - set(" \t\r\n") in ({"["}, {"2"})


@pytest.mark.parametrize(
    ("items", "begun", "ends"),
    [
        ({"enum": ["mon", "tue"]}, '["mon', ['",', '","']),
        ({"enum": ["mon", 1]}, '["mon', ['",']),
        ({"enum": ["mon"]}, '["mon', []),
        ({"anyOf": [{"const": "mon"}, {"type": "integer"}]}, '["mon', ['",']),
        (CLOSED, '[{"a":1', ["},{"]),
        ({**CLOSED, "required": ["a", "b"]}, '[{"a":1,"b":"x"},{"a":2,"b":"x"', []),
        ({"enum": [{}, {"a": 1}]}, "[{", ["},{"]),
        ({**CLOSED, "properties": {"a": {"type": "integer"}}}, '[{"a":1', ["},{"]),
        ({"anyOf": [CLOSED, {"type": "integer"}]}, '[{"a":2,"b":"x"', []),
    ],
)
def test_one_token_may_end_an_item_and_go_on_to_another(items, begun, ends):
    """Where another item may come, and only there."""
    matcher = guarded("llguidance", arrays(items)).matcher()
    for byte in begun.encode():
        assert matcher.accept(byte)
    found = {TOKENS[token] for token in allowed(matcher) if token < len(TOKENS)}
    assert found & {b'",', b'","', b"},{"} == {text.encode() for text in ends}
    for text in ends:
        assert matcher.accept(IDS[text.encode()])
        assert allowed(matcher)
        matcher.rollback(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("items", "text", "expected"),
    [
        ({"type": "number", "minimum": 0, "maximum": 2}, b"[2,2e", "-"),
        ({"type": "number", "minimum": 0, "maximum": 2}, b"[2,2e-0", "0123456789"),
        ({"type": "number", "minimum": 0, "maximum": 2}, b"[2,2e-00", "123456789"),
        ({"type": "number"}, b"[1e111,1.0e11", ",]023456789"),
        ({"type": "number"}, b"[2,2e00", "123456789"),
    ],
)
def test_an_exponent_with_which_a_number_could_only_be_there_already_is_not_begun(
    kind, items, text, expected
):
    name, how = kind.split("-")
    matcher = guarded(name, arrays(items), native=how == "native").matcher()
    for byte in text:
        assert matcher.accept(byte)
    found = {chr(token) for token in allowed(matcher) if token < 256} - set(" \t\r\n")
    assert found == {digit for digit in map(chr, range(33, 127)) if matcher_takes(matcher, digit)}
    assert found == set(expected)


def matcher_takes(matcher: native.DistinctMatcher, text: str) -> bool:
    is_taken = matcher.accept(IDS[text.encode()])
    if is_taken:
        matcher.rollback(1)
    return is_taken


def test_listed_arrays_with_equal_items_are_refused_in_the_place_of_distinct_ones():
    schema = {"anyOf": [arrays({"type": "string"}), {"enum": [[1, 2], [1, 1], [3]]}]}
    with pytest.raises(UnsupportedGuide, match="lists an array with equal items in its place"):
        guarded("llguidance", schema)


def test_definitions_are_kept_that_only_what_holds_beside_a_reference_leads_to():
    items = {
        "$ref": "#/$defs/b",
        "if": {"maximum": 1.5},
        "then": {"uniqueItems": True},
        "else": {"$ref": "#/$defs/a"},
    }
    integers = {"items": {"type": "integer"}, "minItems": 2}
    schema = {"items": items, "$defs": {"a": {"minItems": 1}, "b": integers}}
    grammar = GrammarCompiler(VOCABULARY, GuideConfig()).compile(Guide(json_schema=schema))
    assert takes(grammar, "[2,[1,3]]") and not takes(grammar, "[[1,1]]")
