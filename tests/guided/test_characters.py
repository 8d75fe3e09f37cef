"""Characters that grammar libraries spell in their own ways: each backend takes them as they are,
whatever stands beside them."""

from __future__ import annotations

import json

import pytest
from byte_vocabulary import backend, takes
from grammar_backends import WHOLE

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.select import rewrites

BOTH = pytest.mark.parametrize("name", WHOLE)
SPELT = ["\0", "\t", "\n", "\r", "\x10", "\x1f", "\x7f", "\x80", "é", "ÿ", "\u0e9a", "😀"]


def compiled(name: str, **kind: object) -> CompiledGrammar:
    rewritten = next(iter(rewrites(Guide(**kind), name)))
    limits = GuideConfig()
    adapter = backend(name, True)
    return adapter.compile(adapter.write(rewritten, limits), limits)


@BOTH
@pytest.mark.parametrize("char", SPELT)
def test_a_hexadecimal_digit_behind_a_character_is_one_of_its_own(name: str, char: str) -> None:
    text = f"{char}Af0"
    escaped = "".join(f"\\u{{{ord(one):x}}}" for one in text)
    tag = {"format": {"type": "regex", "pattern": f"[{escaped}]{{4}}"}}
    for grammar in (
        compiled(name, choice=[text, "other"]),
        compiled(name, regex=escaped),
        compiled(name, regex=f"[{escaped}]{{4}}"),
        compiled(name, structural_tag=tag),
    ):
        assert takes(grammar, text) and not takes(grammar, text[1:])


@BOTH
@pytest.mark.parametrize("char", [one for one in SPELT if one >= "\x80"])
def test_so_it_is_in_schemas(name: str, char: str) -> None:
    closed = {"type": "object", "required": [f"{char}a"], "additionalProperties": False}
    schema = {**closed, "properties": {f"{char}a": {"const": f"{char}1"}}}
    assert takes(compiled(name, json_schema=schema), f'{{"{char}a":"{char}1"}}')


@BOTH
@pytest.mark.parametrize("char", SPELT[:6])
def test_control_characters_that_a_schema_names_are_escaped(name: str, char: str) -> None:
    text = json.dumps(f"{char}a")
    closed = {"type": "object", "required": [f"{char}a"], "additionalProperties": False}
    schema = {**closed, "properties": {f"{char}a": {"enum": [f"{char}a", [f"{char}a"]]}}}
    grammar = compiled(name, json_schema=schema)
    assert takes(grammar, f"{{{text}:{text}}}") and takes(grammar, f"{{{text}:[{text}]}}")
    assert not takes(grammar, f'{{{text}:"a"}}') and not takes(grammar, f'{{"a":{text}}}')


@BOTH
def test_delete_is_a_character_as_others_are(name: str) -> None:
    for schema in ({}, {"type": "string"}, {"type": "string", "pattern": "^a[^b]$"}):
        assert takes(compiled(name, json_schema=schema), '"a\x7f"')


@pytest.mark.parametrize("char", ["\0", "\x1b", "\x7f"])
def test_the_library_is_told_no_text_of_which_it_would_leave_out_a_character(char: str) -> None:
    text, adapter = f"a{char}", backend("llguidance", True)
    for schema in (
        {"const": text},
        {"items": {"enum": ["b", {"c": [text]}]}},
        {"enum": [{text: 1}]},
        {"properties": {text: {"type": "integer"}}},
    ):
        with pytest.raises(UnsupportedGuide, match="four digits"):
            adapter.compile(Guide(json_schema=schema), GuideConfig())


def test_a_named_delete_may_be_what_is_forbidden() -> None:
    schema = {"type": "string", "not": {"const": "a\x7f"}}
    grammar = compiled("llguidance", json_schema=schema)
    assert takes(grammar, '"a\x7fb"') and not takes(grammar, '"a\x7f"')


@BOTH
@pytest.mark.parametrize("source", [r'root ::= "\x41BC"', r"root ::= [\x41B] [\x42C]+"])
def test_an_escape_in_ebnf_has_two_digits(name: str, source: str) -> None:
    assert takes(compiled(name, grammar=source), "ABC")


@BOTH
@pytest.mark.parametrize("pattern", [r"[\^a]", r"[\^-a]", r"[a^_]"])
def test_a_caret_in_a_class_negates_nothing(name: str, pattern: str) -> None:
    for grammar in (
        compiled(name, regex=pattern),
        compiled(name, structural_tag={"format": {"type": "regex", "pattern": pattern}}),
    ):
        assert takes(grammar, "^") and takes(grammar, "a") and not takes(grammar, "b")


@BOTH
@pytest.mark.parametrize(
    "source",
    [
        r'root ::= "\ud83d\ude00" # \ud83d',
        r"root ::= [\ud83d\ude00-\ud83d\ude4f]",
        r'root ::= "\U0001f600"',
        r"root ::= [\U0001f600]",
    ],
)
def test_a_character_of_two_halves_is_whole(name: str, source: str) -> None:
    grammar = compiled(name, grammar=source)
    assert takes(grammar, "😀") and not takes(grammar, b"\xed\xa0\xbd\xed\xb8\x80")


@BOTH
@pytest.mark.parametrize("text", [r"\ud83d", r"\ude00\ud83d", r"\\\ud83dx"])
def test_half_of_one_is_refused(name: str, text: str) -> None:
    for source in (f'root ::= "{text}"', f"root ::= [a{text}]"):
        with pytest.raises(InvalidGuide, match="half of a surrogate pair"):
            compiled(name, grammar=source)
