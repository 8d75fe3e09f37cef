"""Numbers that JSON does not have, and flat schemas of many parts: each is answered with what is
really wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lowered_schemas import lowered
from one_compiler import compiler_of

from specguide.bench.instances import BYTES
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.schema.core.patterns import pattern_matches
from specguide.guided.schema.lowering.lower import MAX_NEGATED
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.pruning.prune import prune
from specguide.server.tasks.tools import tools_of

NOT_FINITE = (
    # (schema, keyword, path)
    ({"minItems": "1e999"}, "minItems", "/minItems"),
    ({"minItems": "NaN"}, "minItems", "/minItems"),
    ({"properties": {"a/b": {"maximum": "-Infinity"}}}, "maximum", "/properties/a~1b/maximum"),
    ({"enum": [1, "NaN"]}, "enum", "/enum/1"),
    ({"const": {"a": ["1e999"]}}, "a", "/const/a/0"),
    ({"multipleOf": "Infinity"}, "multipleOf", "/multipleOf"),
    ({"maxLength": "NaN"}, "maxLength", "/maxLength"),
)


def text_of(schema: Any) -> str:
    """JSON text with the numbers bare that a schema above has in quotes."""
    text = json.dumps(schema)
    for number in ("1e999", "NaN", "-Infinity", "Infinity"):
        text = text.replace(f'"{number}"', number)
    return text


@pytest.mark.parametrize(
    ("schema", "keyword", "path"), NOT_FINITE, ids=lambda value: str(value)[:30]
)
def test_a_number_that_json_does_not_have_is_refused_by_keyword_and_path(
    schema: Any, keyword: str, path: str
) -> None:
    text = text_of(schema)
    for value in (text, json.loads(text)):
        with pytest.raises(InvalidGuide, match=f"^{keyword} at {path} is"):
            Guide(json_schema=value)
    with pytest.raises(InvalidGuide, match=f"{keyword} at .*{path} is"):
        Guide(
            structural_tag={
                "type": "structural_tag",
                "format": {"type": "json_schema", "json_schema": json.loads(text)},
            }
        )
    with pytest.raises(InvalidGuide, match=f"^{keyword} at {path} is") as refusal:
        tools_of([{"type": "function", "function": {"name": "f", "parameters": json.loads(text)}}])
    assert refusal.value.param == "tools[0].function.parameters"


compiler = compiler_of(BYTES)


def test_a_schema_in_a_lark_grammar_has_finite_numbers_too(compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidGuide, match="minItems at /minItems"):
        compiler.compile(Guide(grammar='start: %json {"type": "array", "minItems": 1e999}'))


@pytest.mark.parametrize("count", [1e308, 2**53 + 2, 10**400])
def test_a_count_beyond_exact_numbers_is_refused(count: float) -> None:
    with pytest.raises(InvalidGuide, match="/minItems must be an integer from 0 to"):
        lowered({"minItems": count})


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InvalidGuide, match="digits"):
        Guide(json_schema='{"minimum": ' + "9" * 5000 + "}")


FLAT = {
    "chain of references": {
        "$ref": "#/$defs/d0",
        "$defs": {
            **{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(2000)},
            "d2000": {"type": "null"},
        },
    },
    "chain of choices": {
        "$ref": "#/$defs/d0",
        "$defs": {
            **{
                f"d{i}": {"anyOf": [{"const": i}, {"$ref": f"#/$defs/d{i + 1}"}]}
                for i in range(1000)
            },
            "d1000": {"type": "null"},
        },
    },
    "long string": {"type": "string", "not": {"const": "ab" * 500}},
    "many strings": {"type": "string", "not": {"enum": [f"w{i}" for i in range(2000)]}},
}


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_schema_of_many_parts_is_not_too_deep(name: str) -> None:
    core = lowered(FLAT[name])
    if "not" in FLAT[name]:
        prune(merge(core))


def test_what_is_negated_through_many_references_says_so() -> None:
    definitions = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(2 * MAX_NEGATED)}
    with pytest.raises(UnsupportedGuide, match=f"more than {MAX_NEGATED} references"):
        lowered(
            {"not": {"$ref": "#/$defs/d0"}, "$defs": {**definitions, f"d{2 * MAX_NEGATED}": True}}
        )


@pytest.mark.parametrize(
    "words", [["a"], [""], ["", "ab", "abc", "b"], ["a" * 40, "a" * 33 + "b", "a" * 31, "a" * 64]]
)
def test_all_strings_but_some(words: list[str]) -> None:
    core = lowered({"not": {"enum": words}})
    pattern = next(
        option.kinds.strings.pattern for option in core.root.any_of if option.kinds.strings.pattern
    )
    for word in words:
        others = {word[:i] for i in range(len(word))} | {
            word[:i] + "x" + word[i + 1 :] for i in range(len(word))
        }
        for text in {word, word + "a", word + "x", *others}:
            assert pattern_matches(pattern, text) == (text not in words), text


TOOL = (
    '{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": SCHEMA}}}}'
)
BODIES = (
    (
        '"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": '
        "SCHEMA}}",
        "response_format",
    ),
    ('"guided_json": SCHEMA', "guided_json"),
    (f'"tools": [{TOOL}]', "tools[0].function.parameters"),
    ('"structured_outputs": {"json": SCHEMA}', "structured_outputs.json"),
    (
        '"response_format": {"type": "structural_tag", "format": {"type": "json_schema", '
        '"json_schema": SCHEMA}}',
        "response_format",
    ),
)


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
@pytest.mark.parametrize(("field", "param"), BODIES, ids=[param for _, param in BODIES])
def test_a_request_with_such_a_number_is_told_so(http, field: str, param: str, number: str) -> None:
    schema = f'{{"type": "array", "minItems": {number}}}'
    body = '{"messages": [{"role": "user", "content": "a"}], "model": "small", "max_tokens": 4, '
    body += field.replace("SCHEMA", schema) + "}"
    answer = http.post(
        "/v1/chat/completions", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert "minItems at " in error["message"] and "/minItems is" in error["message"], error
    assert (error["param"] or "").startswith(param), error
