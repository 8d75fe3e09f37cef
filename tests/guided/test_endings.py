"""Outputs with a guide end within max_tokens: the rows near the end hold what can still be
finished, and no less."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest
from byte_vocabulary import VOCABULARY, num_tokens
from ending_grammars import allowed, compiled

from specguide import Guide, GuideConfig, Reasoning
from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide.ready_grammars import ready_grammar, ready_grammars
from specguide.guided.compile import GrammarCompiler
from specguide.guided.wrappers.reasoning import ReasoningSections
from specguide.tokenizer.vocabulary import Vocabulary

OF_BOTH = ("plain", "any", "regex", "choice", "ebnf", "tag")


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "size": {"type": "integer", "minimum": 10, "maximum": 4000},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2},
        "place": {
            "anyOf": [{"type": "null"}, {"type": "string", "format": "date"}],
        },
    },
    "required": ["name", "size", "tags", "place"],
}


EITHER = {
    "type": "object",
    "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "boolean"}},
    "required": ["kind"],
    "anyOf": [
        {"properties": {"kind": {"const": "a"}}, "required": ["x"]},
        {"properties": {"kind": {"const": "b"}, "y": {"type": "null"}}, "required": ["y"]},
    ],
}


NESTED = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "string", "pattern": "^[A-Z]{2,5}-[0-9]+$"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value", "children"],
            "additionalProperties": False,
        }
    },
}


PLAIN = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name", "size"],
}


SIZED = {
    "type": "object",
    "properties": {"size": {"type": "integer"}},
    "required": ["size", "code"],
    "additionalProperties": False,
}


TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "tags": [
            {
                "type": "tag",
                "begin": "<f=go>",
                "content": {"type": "json_schema", "json_schema": PLAIN},
                "end": "</f>",
            }
        ],
        "at_least_one": True,
    },
}


SQL = """start: "SELECT" columns "FROM" NAME ("WHERE" NAME "=" /[0-9]+/)?
columns: "*" | NAME ("," NAME)*
NAME: /[a-z]{3,}/
%ignore / +/
"""


GUIDES = {
    "plain": Guide(json_schema=PLAIN),
    "schema": Guide(json_schema=SCHEMA),
    "either": Guide(json_schema=EITHER),
    "nested": Guide(json_schema=NESTED),
    "distinct": Guide(
        json_schema={
            "type": "array",
            "items": {"type": "string"},
            "uniqueItems": True,
            "minItems": 3,
        }
    ),
    "any": Guide(json_object=True),
    "regex": Guide(regex=r"(GET|POST) /[a-z]{2,6}(\?[a-z]+=\d+)? HTTP/1\.[01]"),
    "choice": Guide(choice=("yes", "no", "perhaps, perhaps not")),
    "lark": Guide(grammar=SQL),
    "ebnf": Guide(grammar='root ::= "(" item ("," item)* ")"\nitem ::= root | [0-9]{2,3}'),
    "tag": Guide(structural_tag=TAG),
}


@pytest.fixture(scope="module", params=["auto", "xgrammar"])
def compiler(request):
    return GrammarCompiler(VOCABULARY, GuideConfig(backend=request.param, isolate_compiles=False))


@pytest.fixture(scope="module")
def auto():
    return GrammarCompiler(VOCABULARY, GuideConfig(isolate_compiles=False))


def walk(matcher, vocabulary: Vocabulary, rng: random.Random, most: int) -> bytes | None:
    """A random text; None where it has not ended within `most` tokens."""
    text = b""
    for _ in range(most):
        token = rng.choice(allowed(matcher, vocabulary))
        assert matcher.accept(token)
        text += vocabulary.token_bytes[token]
        if matcher.is_terminated:
            return text
    return None


@pytest.mark.parametrize("most", range(3, 8))
def test_no_beginning_of_a_word_is_allowed_that_has_no_room(auto, most):
    """The whole word is one token, and its rest behind its first byte is four."""
    guide = Guide(choice=["true", "false"], backend="xgrammar")
    for seed in range(20):
        matcher = compiled(auto, guide).within(most).matcher()
        assert walk(matcher, VOCABULARY, random.Random(seed), most) in (b"true", b"false")


@pytest.mark.parametrize("name", GUIDES)
def test_random_texts_end_in_time(compiler, name):
    if compiler.config.backend == "xgrammar" and name not in (
        "plain",
        "any",
        "regex",
        "choice",
        "ebnf",
        "tag",
    ):
        pytest.skip("it compiles no such guide")
    rng = random.Random(name)
    grammar = compiled(compiler, GUIDES[name])
    for extra in (0, 1, 2, 5, 20, 60):
        most = grammar.num_least + extra
        matcher = grammar.within(most).matcher()
        text = walk(matcher, VOCABULARY, rng, most)
        if text is None and grammar.may_go_on:  # text around tags may end behind its last token
            assert set(VOCABULARY.eos_token_ids) & set(allowed(matcher, VOCABULARY))
            continue
        assert text is not None, extra
        if name in ("plain", "schema", "either", "nested"):
            jsonschema.validate(json.loads(text), json.loads(GUIDES[name].source()))


@pytest.mark.parametrize("name", ready_grammars())
def test_texts_of_ready_grammars_end_in_time(auto, name):
    kind = "json_schema" if ready_grammar(name).is_schema else "grammar"
    grammar = compiled(auto, Guide(**{kind: f"@{name}"}))
    for seed in range(4):
        most = grammar.num_least + 8 + 20 * seed
        matcher = grammar.within(most).matcher()
        assert walk(matcher, VOCABULARY, random.Random(seed), most) is not None


def test_too_few_tokens_are_refused(compiler):
    grammar = compiled(compiler, GUIDES["choice"])
    assert grammar.num_least == 3  # "no" and its end
    with pytest.raises(
        InvalidParams, match=r"max_tokens leaves room for 1 .* takes 2 tokens;"
    ) as caught:
        grammar.within(1)
    assert caught.value.param == "max_tokens"


@pytest.mark.parametrize("pattern", ["^[a-z]{1,4}$", "^[A-Z]{2}[0-9]+$", "^.{2,5}$", "[xy]"])
def test_strings_of_a_pattern_end_in_time(compiler, pattern):
    code = {"type": "string", "pattern": pattern}
    schema = {**SIZED, "properties": {**SIZED["properties"], "code": code}}
    grammar = compiled(compiler, Guide(json_schema=schema))
    for seed in range(20):
        most = grammar.num_least + seed
        text = walk(grammar.within(most).matcher(), VOCABULARY, random.Random(seed), most)
        assert text is not None, most
        jsonschema.validate(json.loads(text), schema)


def test_a_guide_without_an_end_is_refused(auto):
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    endless = {"$ref": "#/$defs/node", "$defs": {"node": {**node, "required": ["next"]}}}
    with pytest.raises(InvalidGuide, match="no output that matches the guide ever ends"):
        auto.compile(Guide(json_schema=endless))
    auto.compile(Guide(json_schema={**endless, "$defs": {"node": node}}))


@pytest.mark.parametrize(
    ("items", "least"),
    [
        ({}, 3),
        ({"type": "integer"}, 12),
        ({"type": "string"}, 2),
        ({"enum": ["a", "b", "abcdefghijklmnop"]}, 2),
        ({"enum": ["a", "b", "abcdefghijklmnop"]}, 3),
        ({"enum": ["a", *(f"{number}bcdefghijklmnop" for number in range(4))]}, 5),
    ],
)
def test_distinct_items_end_in_time(auto, items, least):
    schema = {"type": "array", "uniqueItems": True, "items": items, "minItems": least}
    grammar = compiled(auto, Guide(json_schema=schema))
    for seed in range(60):
        most = grammar.num_needed - 1 + seed % 30
        text = walk(grammar.within(most).matcher(), VOCABULARY, random.Random(seed), most + 1)
        assert text is not None, most
        jsonschema.validate(json.loads(text), schema)


LONG = {
    "when": {"type": "string", "format": "date-time"},
    "mail": {"type": "string", "format": "email"},
    "about": {"const": "x" * 300},
}


@pytest.mark.parametrize("others", [{}, LONG], ids=["alone", "long"])
def test_distinct_items_change_nothing_far_from_the_end(compiler, others):
    if compiler.config.backend == "xgrammar" and others:
        pytest.skip("it compiles no such guide")
    tags = {"type": "array", "uniqueItems": True, "items": {"enum": ["red", "green"]}}
    schema = {"type": "object", "properties": {"tags": tags, **others}, "required": ["tags"]}
    grammar = compiled(compiler, Guide(json_schema=schema))
    for seed in range(20):
        free, timed, rng = grammar.matcher(), grammar.within(500).matcher(), random.Random(seed)
        for _ in range(40):
            may_follow = allowed(free, VOCABULARY)
            assert allowed(timed, VOCABULARY) == may_follow
            token = rng.choice(may_follow)
            assert free.accept(token) and timed.accept(token)
            if free.is_terminated:
                break


def test_too_few_tokens_for_distinct_items_are_refused(auto):
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": ["a", "abcdefgh"]}}
    grammar = compiled(auto, Guide(json_schema={**schema, "minItems": 2}))
    shortest = len('["a","abcdefgh"]')
    with pytest.raises(InvalidParams, match=f"takes {grammar.num_needed - 1} tokens;"):
        grammar.within(grammar.num_needed - 2)
    assert grammar.num_least < grammar.num_needed <= shortest + 1


@pytest.mark.parametrize(
    "number",
    [
        {"type": "integer", "multipleOf": 15, "minimum": 0, "maximum": 120},
        {"type": "integer", "multipleOf": 7},
        {"type": "integer", "multipleOf": 997, "exclusiveMinimum": 0},
        {"type": "number", "multipleOf": 60, "maximum": -0.5},
        {"type": "number", "multipleOf": 2.25, "minimum": -3},
        {"type": ["number", "null"], "multipleOf": 0.3},
        {"type": "number", "multipleOf": 1.5, "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"allOf": [{"type": "integer", "multipleOf": 10}, {"multipleOf": 12}]},
    ],
)
def test_multiples_end_in_time_that_no_last_digits_tell(auto, number):
    obj = {"type": "object", "properties": {"n": number}, "required": ["n"]}
    for schema in (number, {"type": "array", "items": obj, "minItems": 2}):
        grammar = compiled(auto, Guide(json_schema=schema))
        for seed in range(40):
            most = grammar.num_least - 1 + seed % 8
            text = walk(grammar.within(most).matcher(), VOCABULARY, random.Random(seed), most + 1)
            assert text is not None, most
            json.loads(text)


def test_ends_are_known_where_a_choice_stands_before_what_holds_beside_it(auto):
    number, text = {"type": "integer"}, {"type": "string"}
    first = [
        {"type": "object", "properties": {"a": kind}, "required": ["a"]} for kind in (number, text)
    ]
    then = {"type": "object", "properties": {"b": number}, "required": ["b"]}
    grammar = compiled(auto, Guide(json_schema={"allOf": [{"anyOf": first}, then]}))
    matcher, begun = grammar.matcher(), b'{"a":"'
    assert all(map(matcher.accept, begun))
    assert grammar.endings.num_missing(begun) == num_tokens('","b":0}') + 1
    for most in range(grammar.num_least, grammar.num_least + 20):
        assert walk(grammar.within(most).matcher(), VOCABULARY, random.Random(most), most)


def test_ends_are_known_of_names_that_a_choice_only_requires(auto):
    either = {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}
    schema = {"type": "object", "allOf": [either, {"required": ["a"]}]}
    grammar, begun = compiled(auto, Guide(json_schema=schema)), b'{"b":'
    assert all(map(grammar.matcher().accept, begun))
    assert grammar.endings.num_missing(begun) == num_tokens('0,"a":0}') + 1


SPELT = Vocabulary(
    (*(bytes([byte]) for byte in range(128)), b"yes", b'":', b"true", b',"', b""), (132,)
)


FLAGS = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}, "b": {"enum": [True]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("guide", "texts"),
    [
        (Guide(regex="no|yes"), ((b"yes",), (b"n", b"o"))),
        (Guide(regex="(x=)?(yes)+"), ((b"yes",), (b"x", b"=", b"yes"))),
        (
            Guide(json_schema=FLAGS),
            ((b"{", b'"', b"a", b'":', b"true", b',"', b"b", b'":', b"true", b"}"),),
        ),
    ],
)
def test_tokens_that_spell_several_letters_or_literals_take_no_more_room(
    new_compiler, guide, texts
):
    grammar = compiled(new_compiler(SPELT), guide)
    assert grammar.num_needed == len(texts[0]) + 1
    for text in texts:
        matcher = grammar.within(len(text) + 1).matcher()
        for token in map(SPELT.token_bytes.index, text):
            assert token in allowed(matcher, SPELT) and matcher.accept(token)
        assert 132 in allowed(matcher, SPELT)


@pytest.mark.parametrize("head", ["root ::=", "start:"])
def test_more_room_takes_no_way_out(new_compiler, head):
    grammar = compiled(new_compiler(SPELT), Guide(grammar=f'{head} "yes" | "true true"'))
    for most in range(4, 16):
        rows = allowed(grammar.within(most).matcher(), SPELT)
        assert {SPELT.token_bytes.index(b"yes"), SPELT.token_bytes.index(b"true")} <= set(rows), (
            most
        )


def test_a_text_may_take_all_tokens_but_that_of_its_end(auto):
    grammar = compiled(auto, Guide(regex="[ab]{4}"))
    assert grammar.num_least == 5
    matcher = grammar.within(4).matcher()
    for left in range(4, 0, -1):
        assert allowed(matcher, VOCABULARY) == [97, 98], left
        matcher.accept(97)


@pytest.mark.parametrize("name", ["plain", "any", "tag"])
def test_rollback_gives_the_rows_again(compiler, name):
    rng = random.Random(5)
    grammar = compiled(compiler, GUIDES[name])
    matcher = grammar.within(grammar.num_least + 9).matcher()
    rows, tokens = [], []
    while not matcher.is_terminated:
        if tokens and rng.random() < 0.3:
            back = rng.randint(1, min(4, len(tokens)))
            matcher.rollback(back)
            del tokens[-back:], rows[len(tokens) + 1 :]
            assert allowed(matcher, VOCABULARY) == rows.pop()
            continue
        row = allowed(matcher, VOCABULARY)
        rows.append(row)
        tokens.append(rng.choice(row))
        assert matcher.accept(tokens[-1])


def test_reasoning_leaves_room_for_the_answer(compiler):
    sections = ReasoningSections(VOCABULARY, lambda _: None)
    grammar, rng = compiled(compiler, GUIDES["plain"]), random.Random(2)
    reasoning = Reasoning(end="</think>")
    with pytest.raises(InvalidParams, match="the marks of the reasoning section included"):
        sections.ending(grammar, reasoning, grammar.num_least + 6)
    for most in (grammar.num_least + 8, grammar.num_least + 40):
        text = walk(sections.ending(grammar, reasoning, most).matcher(), VOCABULARY, rng, most)
        assert text is not None
        jsonschema.validate(json.loads(text.partition(b"</think>")[2]), PLAIN)


@pytest.mark.parametrize("most", [3, 4])
def test_what_one_spelling_leaves_time_for_is_not_forced(auto, most):
    grammar = compiled(auto, Guide(json_schema={"type": "string", "pattern": "b$"}))
    matcher = grammar.within(most).matcher()
    spelled = [VOCABULARY.token_bytes[token] for token in allowed(matcher, VOCABULARY)]
    forced = b"".join(VOCABULARY.token_bytes[token] for token in matcher.forced_tokens())
    assert b'":' in spelled
    assert forced == b'"'
