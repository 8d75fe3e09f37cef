"""Values that may be a text or something else, in formats whose texts have no mark of their own:
they are written as templates write them, and what is read fits the schema."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from one_compiler import compiler_of
from read_outputs import cut, events_of, form_of, no_token

from benchmarks.guides.walks import END, VOCABULARY, walk
from benchmarks.spans import told
from specguide.config import GuideConfig
from specguide.guided.tools import Tool, ToolFormat, tool_formats, tool_guide

LIMITS = GuideConfig(isolate_compiles=False)
RULES = no_token, LIMITS
FORMATS = [
    pytest.param(one, id=name)
    for name, one in tool_formats().items()
    if one.arguments is not None and one.arguments.has_bare_texts
]
ONE_OF_EACH = [one for one in FORMATS if one.id in ("qwen3_coder", "glm47", "minimax_m3")]
TEXT, NULL = {"type": "string"}, {"type": "null"}
INTEGER, NUMBER, BOOLEAN = {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
SHORT = {"type": "string", "minLength": 2, "maxLength": 3, "title": "Short"}
COLOR = {"$ref": "#/$defs/color"}
WORDS = {"enum": ["auto", "1a", "-"]}
POINT = {"type": "object", "properties": {"x": INTEGER}, "maxProperties": 1}

compiler = compiler_of(VOCABULARY, LIMITS)


def any_of(*schemas: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def tool(schema: Any) -> Tool:
    values = {"a": schema, "b": {"type": "integer"}}
    colors = {"color": {"enum": ["red", "blue"]}}
    parameters = {"type": "object", "properties": values, "required": ["a"], "$defs": colors}
    return Tool("f", {**parameters, "additionalProperties": False})


def written(one: ToolFormat, text: str) -> str:
    """A call with a text in the place of its value."""
    form = one.arguments
    value = form.before_name + "a" + form.before_value + text + form.after_value_of("a")
    return one.opening + "f" + one.before_arguments + value + one.after_arguments + one.end


def read(one: ToolFormat, tools: list[Tool], text: str, size: int) -> Any:
    _, said, [(_, arguments)] = told(events_of(form_of(one, tools), cut(text.encode(), size)))
    assert said == ""
    return json.loads(arguments)


OPTIONS = [
    (any_of(TEXT, NULL), {"m": "m", "null": None, '"m"': '"m"', "": "", "nul": "nul", "no": "no"}),
    ({"type": ["string", "null"]}, {"m": "m", "null": None, "1": "1"}),
    ({"type": ["string", "null"], "enum": ["a", None]}, {"a": "a", "null": None, "b": ...}),
    ({"enum": ["a", None, 1, True]}, {"a": "a", "null": None, "1": 1, "true": True, "2": ...}),
    (any_of(SHORT, NULL), {"ab": "ab", "null": None, "a": ..., "abcd": ..., "nul": "nul"}),
    ({**any_of({"type": "string", "minLength": 9}, NULL), "default": None},
     {"null": None, "12345678": ..., "123456789": "123456789"}),
    (any_of(TEXT, BOOLEAN), {"true": True, "false": False, "truer": "truer", "null": "null"}),
    (any_of(TEXT, INTEGER), {"-12": -12, "0": 0, "01": "01", "1.5": "1.5", "1x": "1x", "-": "-"}),
    (any_of(INTEGER, SHORT, NULL), {"1234": 1234, "12": 12, "1x": "1x", "1xyz": ..., "null": None}),
    (any_of(TEXT, NUMBER), {"1.50": 1.5, "-2e3": -2000.0, "1.": "1.", "1e5x": "1e5x"}),
    (any_of(NUMBER, TEXT), {"1e999": "1e999", "9" * 99: int("9" * 99), "9" * 400: "9" * 400}),
    (any_of(TEXT, {"enum": [1, 2.5]}), {"1": 1, "2.5": 2.5, "2": "2"}),
    (any_of(TEXT, {"type": "integer", "enum": [1, 2.5, "x"]}), {"1": 1, "2.5": "2.5", "x": "x"}),
    (any_of(COLOR, NULL), {"red": "red", "null": None, '"red"': ..., "green": ...}),
    (COLOR, {"red": "red", "green": ...}),
    (any_of({"const": "a"}, {"const": "b"}), {"a": "a", "b": "b", "c": ...}),
    (any_of({"enum": ["a", "b"]}, TEXT), {"a": "a", "x y": "x y"}),
    (any_of(WORDS, POINT), {"auto": "auto", "-": "-", '{"x": 1}': {"x": 1}, "au": ..., "[]": ...}),
    (any_of(TEXT, POINT), {"a {": "a {", "": "", '{"x": 1}': {"x": 1}, "{": ..., '"{"': "{"}),
    (any_of({**TEXT, "maxLength": 1_000_000}, POINT), {"x": "x", "": "", '{"x": 1}': {"x": 1}}),
    (any_of(NULL, POINT, SHORT), {"ab": "ab", "null": None, '{"x": 1}': {"x": 1}, '"{}"': "{}"}),
    (any_of(WORDS, {"type": "integer", "minimum": 1}), {"1a": "1a", "1": 1, "0": ..., "-": "-"}),
    (any_of(any_of(TEXT, NULL), BOOLEAN), {"null": None, "true": True, "x": "x"}),
    (any_of(TEXT, {"type": "integer", "minimum": 1}), {"x": ..., '"x"': "x", "1": 1, "0": ...}),
    (any_of({"enum": ["1", "a"]}, {"minimum": 1, **INTEGER}), {'"a"': "a", "a": ..., "1": 1}),
    (any_of({"enum": ["1", "a"]}, INTEGER), {"a": "a", "1": 1, "2": 2}),
    (any_of(TEXT, {"type": "string", "format": "date"}), {"x": ..., '"x"': "x"}),
    ({}, {"x": "x", '"[x]"': "[x]", "1": 1, "[2]": [2], '{"x": [null]}': {"x": [None]}, "[x": ...}),
    ({"title": "A"}, {"true": True, "null": None, "": "", "x\ny": "x\ny"}),
]  # fmt: skip


@pytest.mark.parametrize("one", ONE_OF_EACH)
@pytest.mark.parametrize(("schema", "values"), OPTIONS)
def test_what_is_written_and_what_is_read(one: ToolFormat, schema, values, compiler):
    tools = [tool(schema)]
    grammar = compiler.compile(tool_guide(one, tools, no_token, LIMITS, must_call=True))
    for text, value in values.items():
        call = written(one, text)
        matcher = grammar.matcher()
        is_taken = all(map(matcher.accept, call.encode())) and matcher.accept(END)
        assert is_taken == (value is not ...), text
        for size in (1, 5, 1000) if is_taken else ():
            found = read(one, tools, call, size)["a"]
            assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("one", FORMATS)
def test_random_values_are_read_alike_and_match_their_schema(one: ToolFormat, compiler):
    tools = [tool(any_of(SHORT, BOOLEAN, {"type": "integer"}, COLOR, {"enum": [None, 1.5]}))]
    way = {"must_call": True, "is_parallel": False}
    grammar, rng = compiler.compile(tool_guide(one, tools, *RULES, **way)), random.Random(3)
    for _ in range(30):
        call = walk(grammar, rng, 60)
        arguments = read(one, tools, call, 1)
        assert read(one, tools, call, 1000) == arguments
        jsonschema.validate(arguments, tools[0].parameters)


@pytest.mark.parametrize("one", FORMATS)
def test_an_optional_text_is_written_as_it_is(one: ToolFormat, compiler):
    tools = [tool(any_of(TEXT, NULL))]
    grammar = compiler.compile(tool_guide(one, tools, no_token, LIMITS, must_call=True))
    for value in ("m", None, "nul", "a\nb"):
        call = one.message([("f", json.dumps({"a": value}))])
        assert '"m"' not in call
        matcher = grammar.matcher()
        assert all(map(matcher.accept, call.encode())) and matcher.accept(END)
        for size in (1, 1000):
            assert read(one, tools, call, size) == {"a": value}


@pytest.mark.parametrize("one", FORMATS)
@pytest.mark.parametrize("schema", [False, {"type": "boolean", "enum": ["True", "False"]}])
def test_an_optional_argument_that_nothing_fits_is_left_out(one: ToolFormat, schema, compiler):
    values = {"a": TEXT, "b": schema, "c": {**INTEGER, "const": 1.0}}
    parameters = {"type": "object", "properties": values, "required": ["a"]}
    grammar = compiler.compile(tool_guide(one, [Tool("f", parameters)], *RULES, must_call=True))
    arguments = read(one, [Tool("f", parameters)], written(one, "x"), 1000)
    matcher = grammar.matcher()
    assert all(map(matcher.accept, written(one, "x").encode())) and matcher.accept(END)
    assert arguments == {"a": "x"}


@pytest.mark.parametrize("name", ["qwen3_coder", "step35", "seed_oss"])
@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (BOOLEAN, {"True": True, "true": True, "False": False, "false": False, "None": ...}),
        (any_of(BOOLEAN, NULL), {"True": True, "true": True, "None": None, "null": None}),
        (any_of(TEXT, NULL), {"None": None, "null": None, "True": "True", "Nones": "Nones"}),
        (TEXT, {"None": "None", "null": "null", "True": "True"}),
        ({"enum": [True, "x"]}, {"True": True, "true": True, "x": "x", "False": ...}),
    ],
)
def test_words_of_python_beside_those_of_json(name, schema, values, compiler):
    """Templates write one, and models the other, too."""
    test_what_is_written_and_what_is_read(tool_formats()[name], schema, values, compiler)


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (TEXT, {"a b": "a b", "<![CDATA[<p>\n</param>]]>": "<p>\n</param>", "<p>": ...}),
        (SHORT, {"ab": "ab", "<![CDATA[<b>]]>": "<b>", "<b>": ..., "<![CDATA[<]]>": ...}),
        (any_of(TEXT, NULL), {"null": None, "None": None, "<![CDATA[null]]>": "null", "": ""}),
        (any_of(COLOR, NULL), {"null": None, "red": "red", "<![CDATA[blue]]>": "blue"}),
        (any_of(TEXT, POINT), {"x": "x", '{"x": 1}': {"x": 1}, "<![CDATA[{]]>": "{", "<![": ...}),
        (any_of(WORDS, POINT), {"-": "-", "<![CDATA[-]]>": "-", '{"x": 1}': {"x": 1}}),
        (BOOLEAN, {"True": True, "false": False}),
    ],
)
def test_other_marks_around_texts(schema, values, compiler):
    test_what_is_written_and_what_is_read(tool_formats()["minicpm5"], schema, values, compiler)


def test_what_is_cut_off_is_told_alike_in_any_stretches():
    one, tools = tool_formats()["qwen3_coder"], [tool(any_of(TEXT, NULL, INTEGER))]
    for text in ("nul", "null", "null\n</param", "12", "12\n", "1x", ""):
        call = written(one, text)
        data = call[: call.index("a>\n") + 3 + len(text)].encode()
        ways = [told(events_of(form_of(one, tools), cut(data, size))) for size in (1, 3, 1000)]
        assert ways[0] == ways[1] == ways[2]


def test_a_text_is_told_as_soon_as_it_is_none_of_the_words():
    one, tools = tool_formats()["qwen3_coder"], [tool(any_of(TEXT, NULL, INTEGER))]
    for text in ("nu", "m", "12", "12a"):
        call = written(one, text)
        data = call[: call.index("a>\n") + 3 + len(text)].encode()
        events = events_of(form_of(one, tools), [data, b"y"])
        _, _, [(_, arguments)] = told(events)
        assert arguments == '{"a": "' + text + "y"
