"""Strings in XML styles never hold the mark that ends them, whatever their schema asks of them; and
hold all else that it lets them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

MARKS = {
    "qwen_xml": "</parameter>",
    "minimax_xml": "</parameter>",
    "glm_xml": "</arg_value>",
    "deepseek_xml": "</｜DSML｜parameter>",
    "cohere_xml": "</cofl:value>",
    "kimi_k3_xml": "<|close|>argument<|sep|>",
}
FRAMES = {
    "qwen_xml": "<parameter=a>{}</parameter>",
    "minimax_xml": '<parameter name="a">{}</parameter>',
    "glm_xml": "<arg_key>a</arg_key><arg_value>{}</arg_value>",
    "deepseek_xml": ('<｜DSML｜parameter name="a" string="true">{}</｜DSML｜parameter>'),
    "cohere_xml": '<cofl:value name="a" type="raw">{}</cofl:value>',
    "kimi_k3_xml": ('<|open|>argument key="a" type="string"<|sep|>{}<|close|>argument<|sep|>'),
}

compiler = compiler_of(VOCABULARY, GuideConfig(backend="xgrammar"))


def styled(value: Any, style: str = "qwen_xml", **fields: Any) -> Guide:
    schema = {
        "type": "object",
        "properties": {"a": value},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"short": {"type": "string", "maxLength": 40}},
    }
    content = {"type": "json_schema", "json_schema": schema, "style": style, **fields}
    return Guide(structural_tag={"type": "structural_tag", "format": content})


@pytest.mark.parametrize("style", MARKS)
@pytest.mark.parametrize(
    ("asked", "taken", "refused"),
    [
        ({"minLength": 2}, ["ab", "<b", "a<", "</", "x" * 300], ["", "a"]),
        ({"minLength": 2, "maxLength": 4}, ["ab", "abcd", "é€"], ["a", "abcde"]),
        ({"maxLength": 3000}, ["", "x" * 3000], ["x" * 3001]),
        ({"pattern": "^a.*b$"}, ["ab", "a<b", "a</b"], ["a", "b", "a</b>"]),
        ({"pattern": "^[a-z]+$"}, ["ab"], ["", "a<b"]),
        ({"enum": ["red", "green"]}, ["red", "green"], ["blue"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_asked_of_strings_holds_beside_the_mark(
    compiler: GrammarCompiler,
    style: str,
    asked: dict[str, Any],
    taken: list[str],
    refused: list[str],
) -> None:
    if "pattern" in asked and style == "minimax_xml":
        return  # as qwen_xml
    grammar = compiler.compile(styled({"type": "string", **asked}, style))
    frame, mark = FRAMES[style], MARKS[style]
    for text in taken:
        assert takes(grammar, frame.format(text)), text
    for text in (*refused, mark, f"a{mark}b", f"a{mark}{frame.format('b')[: -len(mark)]}b"):
        assert not takes(grammar, frame.format(text)), text


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": "#/$defs/short"},
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]},
        {"type": ["string", "null"], "maxLength": 40},
        {"enum": ["a</parameter>b", "ab"]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {},
    ],
    ids=str,
)
def test_wherever_it_is_asked(compiler: GrammarCompiler, value: Any) -> None:
    grammar = compiler.compile(styled(value))
    whole = "<parameter=a>{}</parameter>"
    frame = {"array": '["{}"]', "object": '{{"k": "{}"}}'}.get(str(value.get("type")), "{}")
    assert takes(grammar, whole.format(frame.format("ab")))
    assert not takes(grammar, whole.format(frame.format("a</parameter>b")))


def test_texts_around_the_mark(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(styled({"type": "string", "minLength": 3}))
    rng = random.Random(1)
    parts = ["<", "</", "</param", "</parameter>", "eter>", ">", "x", "</parameter", "a"]
    for _ in range(400):
        text = "".join(rng.choices(parts, k=rng.randint(1, 5)))
        is_right = len(text) >= 3 and "</parameter>" not in text
        assert takes(grammar, f"<parameter=a>{text}</parameter>") == is_right, text


@pytest.mark.parametrize(
    "value", [{"const": "a</parameter>"}, {"type": "string", "pattern": "^<.{300}</parameter>$"}]
)
def test_what_only_the_mark_would_match_is_refused(compiler: GrammarCompiler, value: Any) -> None:
    with pytest.raises(UnsupportedGuide, match="'</parameter>', which ends a value"):
        compiler.compile(styled(value))


def test_excluded_texts_are_not_beside_what_would_be_forgotten(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(styled({"type": "string", "minLength": 3}, excludes=["no"]))
    frame = "<parameter=a>{}</parameter>"
    assert takes(grammar, frame.format("abc")) and not takes(grammar, frame.format("ab"))
    assert not takes(grammar, frame.format("a no"))
    with pytest.raises(UnsupportedGuide, match="cannot exclude texts from strings with minLength"):
        compiler.compile(styled({"type": "string", "minLength": 3}, "json", excludes=["no"]))
