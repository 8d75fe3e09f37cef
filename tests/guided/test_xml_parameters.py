"""Parameters in XML styles: each says of which type its value is, and none comes a second time as
one that the schema does not name."""

from __future__ import annotations

from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

FRAMES = {
    "qwen_xml": ("<parameter={0}>{1}</parameter>", "", ""),
    "minimax_xml": ('<parameter name="{0}">{1}</parameter>', "", ""),
    "glm_xml": ("<arg_key>{0}</arg_key><arg_value>{1}</arg_value>", "", ""),
    "deepseek_xml": (
        '<｜DSML｜parameter name="{0}" string="{2}">{1}</｜DSML｜parameter>',
        "false",
        "true",
    ),
    "cohere_xml": ('<cofl:value name="{0}" type="{2}">{1}</cofl:value>', "json", "raw"),
    "kimi_k3_xml": (
        '<|open|>argument key="{0}" type="{2}"<|sep|>{1}<|close|>argument<|sep|>',
        "number",
        "string",
    ),
}

compiler = compiler_of(VOCABULARY, GuideConfig(backend="xgrammar"))


def styled(style: str, schema: dict[str, Any]) -> Guide:
    content = {"type": "json_schema", "json_schema": {"type": "object", **schema}, "style": style}
    return Guide(structural_tag={"type": "structural_tag", "format": content})


@pytest.mark.parametrize("style", FRAMES)
@pytest.mark.parametrize(
    "number", [{"type": "integer"}, {"enum": [7, 12]}, {"type": "number", "minimum": 3}]
)
def test_numbers_are_marked_as_such(
    compiler: GrammarCompiler, style: str, number: dict[str, Any]
) -> None:
    frame, of_number, of_string = FRAMES[style]
    short = {"type": "string", "maxLength": 3}
    schema = {"properties": {"a": number, "b": short}, "required": ["a", "b"]}
    compiled = compiler.compile(styled(style, schema))
    word = frame.format("b", "xyz", of_string)
    assert takes(compiled, frame.format("a", "12", of_number) + word)
    assert not takes(compiled, frame.format("a", "x", of_number) + word)
    if of_number != of_string:
        assert not takes(compiled, frame.format("a", "12", of_string) + word)
        assert not takes(
            compiled, frame.format("a", "12", of_number) + frame.format("b", "xyz", of_number)
        )


@pytest.mark.parametrize("style", FRAMES)
@pytest.mark.parametrize("required", [["a"], []])
@pytest.mark.parametrize("others", [True, {"type": "string"}, {"type": "string", "maxLength": 3}])
def test_a_named_property_does_not_come_as_another_one(
    compiler: GrammarCompiler, style: str, required: list[str], others: Any
) -> None:
    frame, of_number, of_string = FRAMES[style]
    named = {"a": {"type": "integer"}, "ab": {"type": "integer"}}
    schema = {"properties": named, "required": required, "additionalProperties": others}
    compiled = compiler.compile(styled(style, schema))
    number = frame.format("a", "1", of_number)
    for other in ("abc", "b", "a_", "_a"):
        assert takes(compiled, number + frame.format(other, "x", of_string))
    for name in ("a", "ab"):
        assert not takes(compiled, frame.format(name, "x", of_string))
        assert not takes(compiled, number + frame.format(name, "x", of_string))


def test_too_many_names_to_tell_others_from(compiler: GrammarCompiler) -> None:
    properties = {f"a_very_long_name_of_a_property_{i}": {"type": "integer"} for i in range(100)}
    schema = {"properties": properties, "additionalProperties": True}
    with pytest.raises(UnsupportedGuide, match="additionalProperties to false"):
        compiler.compile(styled("qwen_xml", schema))
    assert compiler.compile(styled("qwen_xml", schema | {"additionalProperties": False}))
