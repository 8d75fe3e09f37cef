"""Whitespace between JSON tokens: whatever `json.dumps(indent=…)` writes, and no more than the
limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, backend, takes
from grammar_backends import WHOLE
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler

BOTH = pytest.mark.parametrize("name", WHOLE)
INDENTS = pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
NODE = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#"}}},
}
DEEP: dict[str, Any] = {"name": "leaf  \t", "parts": []}
for _ in range(6):
    DEEP = {"name": "node", "parts": [DEEP, {"name": ""}]}
compiler = compiler_of(VOCABULARY)


def compiled(name: str, limits: GuideConfig, **kind: Any) -> CompiledGrammar:
    return backend(name, True).compile(Guide(**kind), limits)


def kinds() -> Iterator[tuple[dict[str, Any], str]]:
    """Guides whose output is JSON, or has JSON inside, and how that stands in the output."""
    content = {"type": "json_schema", "json_schema": NODE}
    call = {"type": "tag", "begin": "<call>", "content": content, "end": "</call>"}
    yield {"json_schema": NODE}, "%s"
    yield {"json_object": True}, "%s"
    yield {"structural_tag": {"format": content}}, "%s"
    yield (
        {
            "structural_tag": {
                "format": {"type": "triggered_tags", "triggers": ["<call>"], "tags": [call]}
            }
        },
        "so: <call>%s</call>.",
    )


@BOTH
@INDENTS
def test_indented_json_is_taken_wherever_json_stands(name: str, indent: int | str | None) -> None:
    for kind, frame in kinds():
        grammar = compiled(name, GuideConfig(), **kind)
        assert takes(grammar, frame % json.dumps(DEEP, indent=indent)), kind
        assert takes(grammar, frame % json.dumps(DEEP, separators=(",", ":"))), kind


@BOTH
def test_indentation_is_bounded(name: str) -> None:
    for kind, frame in kinds():
        grammar = compiled(name, GuideConfig(max_whitespace=3, max_indent=20), **kind)
        for space in ("\n" + " " * 20, "\n" + "\t" * 20, "\n", " \n\t", "   "):
            assert takes(grammar, frame % f'{{{space}"name"{space}:{space}"x"{space}}}'), (
                kind,
                space,
            )
        for space in (
            "\n" + " " * 21,
            "\n" + "\t" * 21,
            "\n" + "  \t ",
            "\n\n   ",
            " \n   ",
            "    ",
            "\n    \n",
        ):
            for text in ('{%s"name":""}', '{"name"%s:""}', '{"name":%s""}', '{"name":""%s}'):
                assert not takes(grammar, frame % text % space), (kind, text, space)


@BOTH
def test_indentation_can_be_ruled_out(name: str) -> None:
    for kind, frame in kinds():
        grammar = compiled(name, GuideConfig(max_whitespace=3, max_indent=0), **kind)
        assert takes(grammar, frame % '{"name":\n  ""}')
        assert not takes(grammar, frame % '{"name":\n   ""}')
        compact = compiled(name, GuideConfig(max_whitespace=0), **kind)
        assert takes(compact, frame % '{"name":""}')
        assert not takes(compact, frame % '{"name": ""}') and not takes(
            compact, frame % '{"name":\n""}'
        )
    with pytest.raises(InvalidParams, match="max_indent"):
        GuideConfig(max_indent=-1)


@BOTH
@pytest.mark.parametrize("most", [0, 2])
def test_a_tag_bounds_its_own_whitespace(name: str, most: int) -> None:
    content = {"type": "json_schema", "json_schema": NODE, "max_whitespace_cnt": most}
    grammar = compiled(name, GuideConfig(), structural_tag={"format": content})
    assert takes(grammar, f'{{{" " * most}"name":""}}')
    assert not takes(grammar, f'{{{" " * (most + 1)}"name":""}}')
    assert not takes(grammar, f'{{\n{" " * most}"name":""}}')


def test_what_a_schema_spells_is_not_taken_for_whitespace() -> None:
    word = "whitespace_1{0, 999983} whitespace{0, 8} 999984"
    schema = {"type": "object", "properties": {word: {"const": word}}, "required": [word]}
    grammar = compiled("xgrammar", GuideConfig(), json_schema=schema)
    assert takes(grammar, json.dumps({word: word}, indent=2))
    assert not takes(grammar, json.dumps({word: word.replace("{0, 999983}", "")}))


def test_numbers_are_told_from_those_that_a_schema_spells() -> None:
    grammar = compiled("xgrammar", GuideConfig(), json_schema={"enum": ["#999983.0#", 999_984, 7]})
    assert takes(grammar, '"#999983.0#"')
    assert takes(grammar, "7")
    assert not takes(grammar, "999983")


def test_indented_instances_of_real_schemas(data_dir: Path, compiler: GrammarCompiler) -> None:
    num_tried, refused = 0, []
    for line in (data_dir / "jsonschemabench.jsonl").open():
        record = json.loads(line)
        instances = [
            test["data"]
            for test in record["tests"]
            if test["valid"] and len(str(test["data"])) < 700
        ]
        if not instances or len(line) > 10_000 or num_tried >= 500:
            continue
        try:
            grammar = compiler.compile(Guide(json_schema=record["schema"], backend="llguidance"))
        except InvalidGuide:
            continue
        for instance in instances:
            if takes(grammar, json.dumps(instance, ensure_ascii=False, separators=(",", ":"))):
                num_tried += 1
                refused += [
                    (record["id"], indent)
                    for indent in (None, 2, 4, "\t")
                    if not takes(grammar, json.dumps(instance, ensure_ascii=False, indent=indent))
                ]
    assert num_tried >= 500 and not refused
