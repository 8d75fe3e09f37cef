"""Certificates: what is judged of bytes and beginnings, and that wrong grammars are found out."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from one_compiler import compiler_of

from specguide.bench.certificate.certify import Certificate, certify
from specguide.bench.certificate.enforcement import enforcement
from specguide.bench.certificate.json_prefix import END, JsonPrefix
from specguide.bench.certificate.judge import Judge, TooLong, time_limit
from specguide.bench.certificate.partial import partial
from specguide.bench.certificate.report import as_text, page, totals
from specguide.bench.config import CertifyConfig
from specguide.bench.instances import BYTES
from specguide.config import GuideConfig
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}, "tags": {}},
    "required": ["age"],
    "additionalProperties": False,
}
TEXTS = [
    '{"a":[1,-0.5e+3,{}],"é😀":"\\u00e9\\n"}',
    "[true, false ,null]",
    " 0 ",
    '"\\ud800"',
    "-12E9",
]
QUICK = CertifyConfig(walks=3, masks=80, bits=16, changes=60, seconds=20)

compiler = compiler_of(BYTES, GuideConfig(backend="llguidance"))


def is_json(data: bytes) -> bool:
    try:
        json.loads(data.decode())
    except ValueError:
        return False
    return True


def taken(data: bytes) -> bool:
    prefix = JsonPrefix()
    return all(prefix.take(byte) for byte in data) and bool(prefix.viable[END])


def test_bytes_of_json_are_those_that_python_reads() -> None:
    rng = random.Random(0)
    for text in TEXTS:
        data = text.encode()
        assert taken(data)
        for _ in range(1500):
            at = rng.randrange(len(data))
            byte = rng.choice(b'{}[],:"\\ue-+.019tfn \x07\x80\xff\xed')
            other = data[:at] + bytes([byte]) * rng.randrange(2) + data[at + rng.randrange(2) :]
            if b"NaN" not in other and b"Infinity" not in other:
                assert taken(other) == is_json(other), other


@pytest.mark.parametrize("text", TEXTS)
def test_the_viable_bytes_are_those_that_are_taken(text: str) -> None:
    prefix = JsonPrefix()
    for byte in text.encode():
        for other in range(256):
            again = JsonPrefix()
            again._mode, again._open = prefix._mode, prefix._open
            assert again.take(other) == prefix.viable[other]
        assert prefix.take(byte)


@pytest.mark.parametrize(
    ("text", "is_refuted"),
    [
        ('{"age": "', True),
        ('{"age": 1', False),
        ('{"age": 100', False),  # 100e-1 may follow
        ('{"age": 100,', True),
        ('{"age": [', True),
        ('{"age": n', True),
        ('{"b', True),
        ('{"a', False),
        ('{"age": 1, "t', False),
        ('{"age": 1, "tags": [], ', True),
        ("{}", True),
        ("{", False),
        ("[", True),
    ],
)
def test_beginnings_that_nothing_mends(text: str, is_refuted: bool) -> None:
    assert Judge(PERSON).refutes(partial(text)) == is_refuted


@pytest.mark.parametrize(
    ("schema", "text", "is_refuted"),
    [
        ({"enum": ["red", "green"]}, '"gr', False),
        ({"enum": ["red", "green"]}, '"b', True),
        ({"maxLength": 2}, '"\\u00e9\\u00e9\\u00e', False),
        ({"maxLength": 2}, '"abc', True),
        ({"minLength": 2}, '"a', False),
        ({"maxItems": 1}, "[1,", True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "1", True),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, "1", False),
        ({"if": {"required": ["a"]}, "then": {"properties": {"b": False}}}, '{"b": 1', False),
        ({"not": {"required": ["a"]}}, '{"a": 1}', True),
        ({"properties": {"a": {"multipleOf": 0.01}}}, '{"a": 561.29, "b', False),
    ],
)
def test_what_more_text_may_mend_is_not_refuted(schema: Any, text: str, is_refuted: bool) -> None:
    assert Judge(schema).refutes(partial(text)) == is_refuted


def checked(compiler: GrammarCompiler, told_to: Any, schema: Any, *known: Any) -> Certificate:
    """A certificate of one schema's grammar for another schema."""
    return certify(compiler.compile(Guide(json_schema=told_to)), schema, known, QUICK)


def test_a_grammar_that_says_the_same_has_no_errors(compiler: GrammarCompiler) -> None:
    found = checked(compiler, PERSON, PERSON, {"age": 7, "tags": ["é", 1.5]}, {"age": "old"})
    assert found.num_errors == 0, found.faults
    assert found.counts["masks"] > 40 and found.counts["instances"] == 1
    assert found.spellings["indented"] == {"tried": 1, "taken": 1, "reordered": 0}
    assert found.spellings["compact, in ASCII"]["taken"] == 0  # it has no \u escapes


@pytest.mark.parametrize(
    "loose", [{**PERSON, "required": []}, {**PERSON, "properties": {"age": {}}}, {}]
)
def test_a_grammar_that_says_less_is_found_out(compiler: GrammarCompiler, loose: Any) -> None:
    found = checked(compiler, loose, PERSON, {"age": 7})
    assert found.counts["under"] > 0 and found.counts["texts_under"] > 0


@pytest.mark.parametrize(
    "tight",
    [
        {**PERSON, "required": ["age", "tags"]},
        {**PERSON, "properties": {"age": {"enum": [7, 8]}, "tags": {}}},
    ],
)
def test_a_grammar_that_says_more_is_found_out(compiler: GrammarCompiler, tight: Any) -> None:
    found = checked(compiler, tight, PERSON, {"age": 7, "tags": 1}, {"age": 8, "tags": []})
    assert found.counts.get("over", 0) > 0 and found.counts["texts_over"] > 0
    assert not found.counts.get("under")


def test_another_order_of_keys_is_no_error(compiler: GrammarCompiler) -> None:
    found = checked(compiler, PERSON, PERSON, {"tags": 1, "age": 7})
    assert found.num_errors == 0, found.faults
    assert found.spellings["compact"] == {"tried": 1, "taken": 0, "reordered": 1}


def test_a_pattern_that_takes_for_ever_is_undecided() -> None:
    judge = Judge({"pattern": "^(a|a)*$"}, seconds=0.2)
    with pytest.raises(LookupError, match="TooLong"):
        judge.violation(json.dumps("a" * 60 + "b"))
    with pytest.raises(TooLong), time_limit(0.05):
        while True:
            pass


def test_what_is_loose_is_known_where_a_part_names_the_draft_again() -> None:
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    part = {**draft, "type": "string", "format": "uri-template"}
    judge = Judge({**draft, "items": {"$ref": "#/definitions/a"}, "definitions": {"a": part}})
    assert judge.violation('["a b"]') is None
    assert not judge.is_sure


def test_who_enforces_what() -> None:
    schema = {
        **PERSON,
        "title": "A person",
        "properties": {
            "age": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
            "type": {"format": "date", "uniqueItems": True},
        },
    }
    found = {one.keyword: one for one in enforcement(schema, "llguidance")}
    assert found["type"].num == 3 and found["type"].by == "llguidance"
    assert "rewriting" in found["oneOf"].by and "annotation" in found["title"].by
    assert (
        "guard" in found["uniqueItems"].by and found["uniqueItems"].alone == "refused with an error"
    )
    assert "pattern" in found["format date"].by


def test_reports_say_what_was_counted() -> None:
    one = Certificate("llguidance", {"masks": 10, "under": 1}, faults=["under: …"])
    sums = totals([one, Certificate("xgrammar", {"masks": 90})])
    assert sums["masks"] == 100 and sums["schemas_wrong"] == 1 and sums["over"] == 0
    assert "100,000 per 10^6 masks" in as_text(one, []) and "under: …" in as_text(one, [])
    assert "| under-constraint, proven | 1, 10,000 per 10^6 masks |" in page({"a": sums}, "how")


def test_options_have_bounds() -> None:
    with pytest.raises(InvalidParams, match="--masks must be"):
        CertifyConfig(masks=-1)
