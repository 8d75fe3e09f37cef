"""Distinct items, byte by byte: what begins as it could only repeat an item is refused, in each
order of keys, and nothing else is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
from byte_walks import ByteWalks
from closed_objects import closed

from specguide import native
from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

MERGED = ('":', '":1', ',"', '},{"', ',"b":1', '1,"a', "1}", "1 ", '"}', '","', '"a":1,"b":1}')
WALKS = ByteWalks(MERGED)
TOKENS, END, VOCABULARY = WALKS.tokens, WALKS.end, WALKS.vocabulary
allowed = WALKS.allowed


def arrays(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def objects(properties: dict[str, list[Any]], *required: str) -> list[Any]:
    """All objects of some properties, whose values are listed."""
    ways = [
        [*values, None] if name not in required else values for name, values in properties.items()
    ]
    return [
        {name: value for name, value in zip(properties, chosen, strict=True) if value is not None}
        for chosen in itertools.product(*ways)
    ]


def lists(values: list[Any], most: int) -> list[Any]:
    """All lists of different values, of up to a number of them."""
    return [list(c) for num in range(most + 1) for c in itertools.permutations(values, num)]


ONE = {"const": 1}
PAIR = closed({"a": ONE, "b": ONE})
PAIRS = objects({"a": [1], "b": [1]})
# The schema of the items, all of their values, and how many of them an array may have at most.
CASES: dict[str, tuple[Any, list[Any], int]] = {
    "two members": (PAIR, PAIRS, 3),
    "one value": ({"const": "x"}, ["x"], 3),
    "three members": (
        closed({"a": ONE, "b": ONE, "c": ONE}, "c"),
        objects({"a": [1], "b": [1], "c": [1]}, "c"),
        3,
    ),
    "three that are required": (
        closed({"a": {"enum": [1, 12]}, "b": ONE, "c": ONE}, "a", "b", "c"),
        objects({"a": [1, 12], "b": [1], "c": [1]}, "a", "b", "c"),
        2,
    ),
    "one that asks for another": (
        closed({"a": ONE, "b": ONE, "c": ONE}, dependentRequired={"a": ["b"]}),
        [one for one in objects({"a": [1], "b": [1], "c": [1]}) if "a" not in one or "b" in one],
        2,
    ),
    "strings": (
        closed({"a": {"enum": ["x", "xy"]}, "ab": {"enum": ["x"]}}, "a"),
        objects({"a": ["x", "xy"], "ab": ["x"]}, "a"),
        3,
    ),
    "objects within": (
        closed({"o": PAIR, "p": ONE}, "o"),
        objects({"o": PAIRS, "p": [1]}, "o"),
        2,
    ),
    "arrays of objects within": (
        closed({"l": {"type": "array", "items": PAIR, "maxItems": 1}, "p": ONE}, "l", "p"),
        objects({"l": [[], *([one] for one in PAIRS)], "p": [1]}, "l", "p"),
        2,
    ),
    "distinct items within": (
        closed({"l": arrays(PAIR, maxItems=2)}, "l"),
        [{"l": one} for one in lists(PAIRS, 2)],
        1,
    ),
    "distinct items within, which another member follows": (
        closed({"l": arrays({"enum": ["x", "xy"]}), "p": {"enum": [1, 12]}}, "l"),
        objects({"l": lists(["x", "xy"], 2), "p": [1, 12]}, "l"),
        2,
    ),
    "distinct arrays": (arrays({"type": "boolean"}), lists([True, False], 2), 6),
    "distinct arrays of a length": (
        arrays({"enum": [1, 12, 2]}, minItems=2, maxItems=2),
        [one for one in lists([1, 12, 2], 2) if len(one) == 2],
        3,
    ),
    "distinct arrays of distinct arrays": (
        arrays(arrays({"const": "x"})),
        lists([[], ["x"]], 2),
        3,
    ),
}
# Schemas of arrays whose first items are told by their place, and the values of all items.
BOOLEAN = {"type": "boolean"}
TOLD: dict[str, tuple[Any, list[Any]]] = {
    "others may be the same": (
        {"prefixItems": [BOOLEAN] * 2, "items": {"enum": [True, None, False, 1]}},
        [True, False, None, 1],
    ),
    "one that begins the others": (
        {"prefixItems": [{"enum": ["x", "xy"]}], "items": {"enum": ["xy", "x", "xyz"]}},
        ["x", "xy", "xyz"],
    ),
    "all others are there": (
        {"prefixItems": [{"enum": [1, 2]}] * 2, "items": {"enum": [1, 2, 12]}, "minItems": 2},
        [1, 2, 12],
    ),
}


@cache
def grammar_of(schema: str) -> Any:
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(key_order="any"))
    return compiler.compile(Guide(json_schema=json.loads(schema)))


def matcher_of(items: Any, most: int = 4) -> native.Matcher:
    return grammar_of(json.dumps(arrays(items, maxItems=most))).matcher()


def take(matcher: native.Matcher, text: str) -> None:
    for byte in text.encode():
        assert matcher.accept(byte), text


def spellings(value: Any) -> Iterator[str]:
    """A value as JSON without whitespace, with the members of each object in each order."""
    if isinstance(value, dict):
        for members in itertools.permutations(value.items()):
            for texts in itertools.product(*(spellings(one) for _, one in members)):
                pairs = zip(members, texts, strict=True)
                yield "{" + ",".join(f'"{name}":{text}' for (name, _), text in pairs) + "}"
    elif isinstance(value, list):
        for texts in itertools.product(*map(spellings, value)):
            yield f"[{','.join(texts)}]"
    else:
        yield json.dumps(value)


def ends(matcher: native.Matcher, text: bytes, later: set[bytes]) -> Iterator[str]:
    """What a matcher takes behind a text of it without whitespace, byte by byte. Each state that is
    reached allows something but whitespace. later: gets what longer tokens lead to"""
    row = allowed(matcher)
    assert not all(TOKENS[token].isspace() for token in row), text
    for token in row:
        taken = TOKENS[token]
        if token == END:
            yield text.decode()
        elif taken != b"".join(taken.split()):
            continue
        elif len(taken) > 1:
            later.add(text + taken)
        else:
            assert matcher.accept(token), text + taken
            yield from ends(matcher, text + taken, later)
            matcher.rollback(1)


@pytest.mark.parametrize("name", CASES)
def test_every_state_leads_to_an_end_and_all_that_is_distinct_is_taken(name):
    items, values, most = CASES[name]
    later: set[bytes] = set()
    found = set(ends(matcher_of(items, most), b"", later))
    assert found == {text for chosen in lists(values, most) for text in spellings(chosen)}
    assert later <= beginnings(found)


@pytest.mark.parametrize("name", TOLD)
def test_items_told_by_their_place_lead_to_an_end(name):
    asked, values = TOLD[name]
    schema = {"type": "array", "uniqueItems": True, **asked}
    validator = jsonschema.Draft202012Validator(schema)
    later: set[bytes] = set()
    found = set(ends(grammar_of(json.dumps(schema)).matcher(), b"", later))
    chosen = lists(values, len(values))
    assert found == {text for one in chosen if validator.is_valid(one) for text in spellings(one)}
    assert later <= beginnings(found)


def beginnings(texts: set[str]) -> set[bytes]:
    return {text[:size].encode() for text in texts for size in range(len(text) + 1)}


def test_rollbacks_over_items_told_by_their_place():
    """Rows are the same behind a rollback, with whitespace too."""
    asked, _ = TOLD["others may be the same"]
    matcher = grammar_of(json.dumps({"type": "array", "uniqueItems": True, **asked})).matcher()
    rows = [allowed(matcher)]
    for byte in b"[true , false , null, 1":
        assert matcher.accept(byte)
        rows.append(allowed(matcher))
    assert ord(",") not in rows[-1]
    for row in reversed(rows[:-1]):
        matcher.rollback(1)
        assert allowed(matcher) == row
    take(matcher, "[false,true,")
    assert not any(matcher.accept(byte) for byte in b"tf")
    matcher.rollback(len("false,true,"))
    take(matcher, "true]")


def test_another_order_of_an_item_that_is_there_is_refused_where_it_can_only_repeat_it():
    """It is refused also where whitespace follows a number, and after a walk back over the item."""
    matcher = matcher_of(PAIR)
    take(matcher, '[{"a":1,"b":1},{"b":1')
    rows = [allowed(matcher)]
    assert {TOKENS[token] for token in rows[-1]} == {b" ", b"\t", b"\n", b"\r", b"}", b'},{"'}
    text = ' },{"a":1 },{'
    for byte in text.encode():
        assert matcher.accept(byte)
        rows.append(allowed(matcher))
    assert TOKENS.index(b"}") in rows[-1]
    for row in reversed(rows[:-1]):
        matcher.rollback(1)
        assert allowed(matcher) == row
    matcher.rollback(len('{"b":1'))
    take(matcher, '{"a":1')
    assert not matcher.accept(ord(","))


def test_a_rollback_over_the_earlier_item_frees_its_orders():
    matcher = matcher_of(PAIR)
    take(matcher, '[{"a":1,"b":1},{"b":1')
    assert not matcher.accept(ord(","))
    matcher.rollback(len(',"b":1},{"b":1'))
    take(matcher, '},{"b":1,"a":1},{"')
    assert not matcher.accept(ord("a"))
    take(matcher, 'b":1')
    assert not matcher.accept(ord(","))
    assert ord("}") in allowed(matcher)


def test_a_token_over_the_end_of_a_member_is_judged_by_all_members():
    items = closed({"a": {"enum": ["x", "xy"]}, "b": {"enum": ["", "z"]}}, "a", "b")
    matcher = matcher_of(items)
    take(matcher, '[{"a":"x","b":""},{"a":"x","b":"z"},{"b":"","a":"x')
    assert [TOKENS[token] for token in allowed(matcher)] == [b"y"]
    matcher.rollback(len('"b":"","a":"x'))
    take(matcher, '"b":"z","a":"')
    taken = [TOKENS[token] for token in allowed(matcher)]
    assert taken == [b"x"]
    matcher.rollback(len('"b":"z","a":"'))
    take(matcher, '"a":"x')
    assert [TOKENS[token] for token in allowed(matcher)] == [b"y"]


@pytest.mark.parametrize("order", ["schema", "any"])
def test_numbers_within_items_end_where_whitespace_follows(new_compiler, order):
    schema = arrays(closed({"a": {"type": "integer"}}, "a"))
    matcher = new_compiler(VOCABULARY, key_order=order).compile(Guide(json_schema=schema)).matcher()
    take(matcher, '[{"a":1 },{"a":1')
    assert ord("2") in allowed(matcher)
    assert not matcher.accept(ord(" "))
    take(matcher, '2},{"a":0},{"a":-')
    assert ord("1") in allowed(matcher)
    assert not matcher.accept(ord("0"))


def test_many_members_take_no_long_search():
    """Each of them is one value, so that only the name that differs tells items apart."""
    names = [f"m{i}" for i in range(16)]
    items = closed({"a": {"enum": [1, 2]}, **dict.fromkeys(names, ONE)}, "a", *names)
    matcher = matcher_of(items)
    members = [f'"{name}":1' for name in names]
    take(matcher, "[{" + ",".join(['"a":1', *members]) + "},{" + ",".join(members[::-1]))
    assert allowed(matcher)
    take(matcher, ',"a":')
    assert [TOKENS[token] for token in allowed(matcher) if not TOKENS[token].isspace()] == [b"2"]
