"""Tool formats: what each one's grammar allows is read as calls of the schema, whatever its
arguments are; those that write them one by one have forms of their own for texts and constants."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from one_compiler import compiler_of
from read_outputs import cut, events_of, form_of, no_token

from benchmarks.guides.walks import END, VOCABULARY, walk
from benchmarks.spans import told
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.limits import check_limits
from specguide.guided.tools import ArgumentsForm, Tool, ToolFormat, tool_formats, tool_guide
from specguide.guided.tools.shapes import TextShape
from specguide.guided.tools.value_shapes import arguments_shape
from specguide.server.tasks.tool_choice import ToolChoice

LIMITS = GuideConfig(isolate_compiles=False)
RULES = no_token, LIMITS
ORDER = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "kind": {"enum": ["new", "old one"]},
        "code": {"type": "string", "minLength": 2, "maxLength": 5},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "is_paid": {"type": "boolean"},
        "nothing": {"type": "null"},
        "maybe": {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 2},
        "on": {"type": "string", "format": "date"},
        "at": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
    },
    "required": ["kind", "count", "is_paid"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "string", "maxLength": 3}},
}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [Tool("order", ORDER, "tools[0]"), Tool("list.all", EMPTY, "tools[1]")]
FULL = {
    "note": 'two\nlines, "x" \\ <b>',
    "kind": "old one",
    "code": "é=1)",
    "count": 12,
    "is_paid": True,
    "nothing": None,
    "maybe": None,
    "items": ["]", ")"],
    "at": {"x": -1.5},
}
ALL = [pytest.param(one, id=name) for name, one in tool_formats().items()]
LONGEST_JSON = max(
    (one for one in ALL if one.values[0].arguments is None),
    key=lambda one: len(one.values[0].call("", "{}")),
)
LISTED = [pytest.param(one, id=name) for name, one in tool_formats().items() if one.arguments]


def after_text(one: ToolFormat) -> str:
    """What stands behind a text that is named k and written as it is."""
    form = one.arguments
    return (form.text_marks or ("", ""))[1] + form.after_value_of("k")


OF_EACH_MARK = list({after_text(one.values[0]): one for one in LISTED}.values())


def in_order(one: ToolFormat, arguments: str) -> str:
    """Arguments in the order in which the format writes them."""
    is_sorted = one.arguments is not None and one.arguments.is_sorted
    return json.dumps(json.loads(arguments), ensure_ascii=False, sort_keys=is_sorted)


def text_arguments(form: ArgumentsForm | None, parameters: dict[str, Any]) -> set[str]:
    """Names of a tool's arguments that are always written as raw text."""
    members = () if form is None else arguments_shape(form, parameters).members
    shapes = [(one.name, one.shape) for one in members]
    return {name for name, one in shapes if isinstance(one, TextShape) and not one.beside}


compiler = compiler_of(VOCABULARY, LIMITS)


def read(one: ToolFormat, text: str, size: int = 7) -> tuple[str, list[tuple[str, str]]]:
    """The text that is said, and the calls."""
    _, said, calls = told(events_of(form_of(one, TOOLS), cut(text.encode(), size)))
    return said, calls


@pytest.mark.parametrize("one", ALL)
def test_random_calls_are_read_and_match_their_schema(one: ToolFormat, compiler):
    short = {**ORDER["properties"], "note": {"type": "string", "maxLength": 9}}
    tools = [Tool("order", {**ORDER, "properties": short}), TOOLS[1]]
    guide = tool_guide(one, tools, no_token, LIMITS, must_call=True)
    grammar, rng = compiler.compile(guide), random.Random(5)
    for size in (1, 3, 8, 1000) * (2 if one.arguments else 1):
        said, calls = read(one, walk(grammar, rng, 300), size)
        assert calls and said == ""
        for name, arguments in calls:
            schema = next(tool.parameters for tool in TOOLS if tool.name == name)
            jsonschema.validate(json.loads(arguments), schema)


@pytest.mark.parametrize("one", ALL)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_all_arguments_there_are(one: ToolFormat, size: int, compiler):
    arguments = json.dumps(FULL, ensure_ascii=False)
    text = one.message([("order", arguments)])
    assert read(one, text, size) == ("", [("order", in_order(one, arguments))])
    matcher = compiler.compile(tool_guide(one, TOOLS, no_token, LIMITS, must_call=True)).matcher()
    assert all(matcher.accept(byte) for byte in text.encode()) and matcher.accept(END)


@pytest.mark.parametrize("one", ALL)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_name_that_begins_another(one: ToolFormat, size: int, compiler):
    tools = [Tool("list", ORDER), Tool("list.all", EMPTY), Tool("list.all.too", EMPTY)]
    arguments = '{"kind": "new", "count": 1, "is_paid": true}'
    grammar = compiler.compile(tool_guide(one, tools, no_token, LIMITS, must_call=True))
    for call in (("list", arguments), ("list.all", "{}"), ("list.all.too", "{}")):
        text = one.message([call])
        matcher = grammar.matcher()
        assert all(matcher.accept(byte) for byte in text.encode()) and matcher.accept(END)
        _, said, calls = told(events_of(form_of(one, tools), cut(text.encode(), size)))
        assert (said, calls) == ("", [(call[0], in_order(one, call[1]))])


@pytest.mark.parametrize("one", LISTED)
@pytest.mark.parametrize("size", [1, 1000])
def test_no_arguments_where_there_may_be_some(one: ToolFormat, size: int, compiler):
    tools = [Tool("order", {**ORDER, "required": []}), Tool("list.all", EMPTY)]
    grammar = compiler.compile(tool_guide(one, tools, no_token, LIMITS, must_call=True))
    calls = [("order", "{}"), ("order", '{"count": 1}'), ("list.all", "{}")]
    text = one.message(calls)
    matcher = grammar.matcher()
    assert all(matcher.accept(byte) for byte in text.encode()) and matcher.accept(END)
    assert told(events_of(form_of(one, tools), cut(text.encode(), size))) == ("", "", calls)


@pytest.mark.parametrize("one", LISTED)
@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "other", "count": 1, "is_paid": True},
        {"kind": "new", "count": 100, "is_paid": True},
        {"kind": "new", "count": 1, "is_paid": 1},
        {"kind": "new", "is_paid": True},
        {"kind": "new", "code": "x", "count": 1, "is_paid": True},
        {"kind": "new", "code": "xxxxxx", "count": 1, "is_paid": True},
        {"kind": "new", "count": 1, "is_paid": True, "other": 1},
    ],
)
def test_arguments_that_the_schema_does_not_have(one: ToolFormat, wrong, compiler):
    matcher = compiler.compile(tool_guide(one, TOOLS, no_token, LIMITS, must_call=True)).matcher()
    text = one.message([("order", json.dumps(wrong))]).encode()
    assert not (all(matcher.accept(byte) for byte in text) and matcher.accept(END))


@pytest.mark.parametrize("one", ALL)
def test_an_argument_refers_to_more_than_definitions(one: ToolFormat, compiler):
    """It refers to all arguments, to another one, and to the schema of those without any. What
    refers to itself is JSON."""
    if one.arguments is not None:
        without: dict[str, Any] = {"object_marks": None}
        if one.arguments.has_literals:
            without |= {"array_marks": None, "has_literals": False}
        one = replace(one, arguments=replace(one.arguments, **without))
    kids = {"type": "array", "items": {"$ref": "#"}}
    parameters = {
        "type": "object",
        "properties": {
            "a~/b": {"type": "integer"},
            "c": {"$ref": "#/properties/a~0~1b"},
            "k": kids,
        },
        "required": ["c", "z"],
        "additionalProperties": {"$ref": "#/$defs/tree"},
        "$defs": {"tree": kids},
    }
    guide = tool_guide(one, [Tool("f", parameters)], no_token, LIMITS, must_call=True)
    grammar, leaf = compiler.compile(guide), {"c": 1, "z": []}
    for value in (
        leaf,
        *({**leaf, "z": [kid]} for kid in (leaf, [], 1)),
        *({"c": 1, "k": [kid], "z": []} for kid in (leaf, [], 1)),
        {"c": "x", "z": []},
    ):
        is_valid = jsonschema.Draft202012Validator(parameters).is_valid(value)
        text = one.message([("f", json.dumps(value))]).encode()
        matcher = grammar.matcher()
        assert (all(map(matcher.accept, text)) and matcher.accept(END)) == is_valid, value


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": ["string", "null"], "enum": ["a"]}, []),
        ({"type": ["string", "null"], "enum": ["a", None]}, ["None"]),
        ({"type": ["boolean", "null"]}, ["None", "True", "False"]),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, ["None", "True", "False"]),
        ({"anyOf": [{"type": "boolean", "const": True}, {"type": "string"}]}, ["True"]),
        ({"type": "boolean", "anyOf": [{"const": True}, {"type": "string"}]}, ["True"]),
        ({"type": "boolean", "enum": [True]}, ["True"]),
        ({"enum": [True, False], "const": True}, ["True"]),
        ({"enum": ["a", None, 1]}, ["None"]),
        ({}, ["None", "True", "False"]),
        ({"type": "array", "anyOf": [{"type": "null"}, {"minItems": 1}]}, []),
        ({"type": "boolean", "not": {"const": True}}, []),
        ({"type": ["array", "null"], "anyOf": [{"type": "null"}, {"minItems": 1}]}, ["None"]),
        ({"type": "boolean"}, ["True", "False"]),
    ],
)
def test_other_words_for_constants_stand_where_these_fit(schema, values, compiler):
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    one = tool_formats()["llama4_pythonic"]
    guide = tool_guide(one, [Tool("f", parameters)], no_token, LIMITS, must_call=True)
    grammar, taken = compiler.compile(guide), []
    for value in ("None", "True", "False"):
        matcher = grammar.matcher()
        text = f"{one.opening}f(a={value}){one.end}".encode()
        taken += [value] if all(map(matcher.accept, text)) and matcher.accept(END) else []
    assert taken == values


BOUND = {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}


@pytest.mark.parametrize("one", LISTED)
@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("oneOf", [{}]),
        ("not", {}),
        ("$ref", "#/$defs/x"),
        ("allOf", [{}, {"required": ["b"]}]),
        ("dependentRequired", {"a": ["b"]}),
        ("dependentSchemas", {"a": {"required": ["b"]}}),
        ("dependencies", {"a": ["b"], "b": []}),
        ("patternProperties", {"^x": {}}),
        ("propertyNames", {"maxLength": 1}),
        ("unevaluatedProperties", False),
        ("minProperties", 2),
        ("maxProperties", 1),
        ("enum", [{"a": 1}]),
    ],
)
def test_what_is_not_enforced_is_refused(one: ToolFormat, keyword, value):
    tool = Tool("f", {"type": "object", **BOUND, keyword: value}, "tools[0]")
    with pytest.raises(
        UnsupportedGuide, match=re.escape(f"{keyword} of a tool's arguments")
    ) as caught:
        tool_guide(one, [tool], no_token, LIMITS)
    assert caught.value.param == "tools[0]"


@pytest.mark.parametrize("one", LISTED)
@pytest.mark.parametrize(
    "idle",
    [
        {"nullable": True, "x-order": ["a"], "deprecated": False, "readOnly": True},
        {"dependentRequired": {"a": []}, "dependencies": {"b": [], "a": {"title": "A"}}},
        {"dependentSchemas": {"a": True}, "patternProperties": {}, "propertyNames": {}},
        {"allOf": [{}, {"type": "object"}], "minProperties": 1, "maxProperties": 2},
        {"items": {"type": "string"}, "pattern": "^a$", "minimum": 3, "then": False},
    ],
)
def test_what_asks_nothing_is_taken(one: ToolFormat, idle):
    plain = Tool("f", {"type": "object", **BOUND})
    guide = tool_guide(one, [replace(plain, parameters={**plain.parameters, **idle})], *RULES)
    assert guide.source() == tool_guide(one, [plain], *RULES).source()


@pytest.mark.parametrize("one", LISTED)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"properties": None}, "properties at /properties must"),
        ({"properties": {"x": None}}, "properties at /properties must"),
        ({"required": None}, "required at /required must"),
        ({"required": [["x"]]}, "required at /required must"),
        ({"properties": {"x": {"enum": 5}}}, "enum at /properties/x/enum must"),
        ({"properties": {"x/y": {"anyOf": None}}}, "anyOf at /properties/x~1y/anyOf must"),
        ({"properties": {"x": {"type": "string", "minLength": "1"}}}, "minLength at /properties/x"),
    ],
)
def test_what_is_no_schema_is_refused(one: ToolFormat, change, words):
    tool = Tool("f", {"type": "object", **change}, "tools[0]")
    with pytest.raises(InvalidGuide, match=words) as caught:
        tool_guide(one, [tool], no_token, LIMITS)
    assert caught.value.param == "tools[0]"


BIG = 2**60 + 1


@pytest.mark.parametrize("one", [*LISTED, LONGEST_JSON])
@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"enum": [BIG, -BIG, 10**40 + 1, 3]}, (BIG, -BIG, 10**40 + 1, 3), (BIG - 1, 10**40)),
        ({"const": BIG}, (BIG,), (BIG - 1, BIG + 1)),
        ({"type": "integer", "maximum": BIG}, (BIG, -BIG), (BIG + 1,)),
        ({"type": "integer", "minimum": BIG}, (BIG, 10**40), (BIG - 1, -BIG)),
        ({"type": "integer", "exclusiveMaximum": BIG}, (BIG - 1,), (BIG,)),
    ],
)
def test_integers_that_no_double_is(one: ToolFormat, schema, taken, refused, compiler):
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    grammar = compiler.compile(
        tool_guide(one, [Tool("f", parameters)], no_token, LIMITS, must_call=True)
    )
    for value in (*taken, *refused):
        matcher = grammar.matcher()
        text = one.message([("f", json.dumps({"a": value}))]).encode()
        is_taken = all(map(matcher.accept, text)) and matcher.accept(END)
        assert is_taken == (value in taken), value


@pytest.mark.parametrize("one", LISTED)
def test_arguments_that_are_named_twice_and_counts_that_are_floats(one: ToolFormat, compiler):
    text = {"type": "string", "minLength": 1.0, "maxLength": 2.0}
    parameters = {"type": "object", "properties": {"x": text}, "required": ["x", "y", "y"]}
    guide = tool_guide(one, [Tool("f", parameters, "tools[0]")], no_token, LIMITS, must_call=True)
    matcher = compiler.compile(guide).matcher()
    message = one.message([("f", json.dumps({"x": "ab", "y": 1}))]).encode()
    assert all(matcher.accept(byte) for byte in message) and matcher.accept(END)


@pytest.mark.parametrize("one", OF_EACH_MARK)
@pytest.mark.parametrize(
    ("least", "most"),
    [(0, 10_000), (0, 1_000_000), (3, 100_000), (40, 9000), (2000, 9000)],
)
def test_long_texts_are_walked_where_a_mark_may_begin(one: ToolFormat, least, most, compiler):
    check_long_texts(one, least, most, compiler)


@pytest.mark.parametrize("most", [10_000, None])
def test_the_longest_texts_are_walked_in_front_of_the_longest_mark(most, compiler):
    """Which takes the library most steps."""
    one = max((one.values[0] for one in OF_EACH_MARK), key=lambda one: len(after_text(one)))
    check_long_texts(one, 1500, most, compiler)


def check_long_texts(
    one: ToolFormat, least: int, most: int | None, compiler: GrammarCompiler
) -> None:
    """Asserts that texts with parts of the mark behind them are taken where they are long
    enough."""
    text: dict[str, Any] = {"type": "string", "minLength": least}
    if most is not None:
        text["maxLength"] = most
    parameters = {"type": "object", "properties": {name: text for name in "ab"}}
    tool = Tool("f", {**parameters, "required": list("ab")})
    grammar = compiler.compile(tool_guide(one, [tool], no_token, LIMITS, must_call=True))
    mark = after_text(one) or "\n"
    are_texts = bool(text_arguments(one.arguments, tool.parameters))
    pieces = "é".join(mark[:size] for size in range(1, len(mark))) + "é"
    value = (pieces * 2000)[: max(least, 200) - 1] + "é"
    for size, is_whole in ((len(value), True), (least - 1, False)):
        if size < 0:
            continue
        called = json.dumps(dict.fromkeys("ab", value[:size]), ensure_ascii=False)
        matcher, row = grammar.matcher(), np.zeros(VOCABULARY.num_words, np.int32)
        for byte in _call_of(one, called, are_texts).encode():
            matcher.fill(row)
            if not (is_taken := matcher.accept(byte)):
                break
        assert is_taken == is_whole


@pytest.mark.parametrize("one", LISTED)
@pytest.mark.parametrize("is_special", [False, True])
def test_listed_texts_that_have_marks_in_them(one: ToolFormat, is_special: bool, compiler):
    """They are written as JSON where they would not be read as they are."""
    special = dict(zip(one.special_tokens, range(300, 400), strict=False)) if is_special else {}
    end = after_text(one) or ")"
    num_special = []
    for text in ("plain", f"a{end}b", end, f"a{end[:-1]}", *one.special_tokens):
        parameters = {"type": "object", "properties": {"k": {"enum": [text, "z"]}}}
        tools = [Tool("f", {**parameters, "required": ["k"]})]
        guide = tool_guide(one, tools, special.get, LIMITS, must_call=True)
        is_text = "k" in text_arguments(one.arguments, parameters)
        assert is_text or "%json" in guide.source()
        num_special.append(guide.source().count("<["))
        assert num_special[-1] <= num_special[0]  # those of the text are text
        if special:
            continue  # for which there is no vocabulary here
        called = _call_of(one, json.dumps({"k": text}), is_text)
        matcher = compiler.compile(guide).matcher()
        assert all(map(matcher.accept, called.encode())) and matcher.accept(END)
        _, _, calls = told(events_of(form_of(one, tools), cut(called.encode(), 5)))
        assert [(name, json.loads(arguments)) for name, arguments in calls] == [("f", {"k": text})]


def _call_of(one: ToolFormat, arguments: str, are_texts: bool) -> str:
    """A message with one call, whose texts are written as they are or as JSON."""
    form = one.arguments if are_texts else replace(one.arguments, text_marks=None)
    return replace(one, arguments=form).message([("f", arguments)])


@pytest.mark.parametrize(
    ("schema", "is_text"),
    [
        ({"enum": ["a", "b"]}, True),
        ({"enum": ["a", "b"], "type": ["string", "null"]}, True),
        ({"enum": ["a", "b"], "type": "integer"}, False),
        ({"enum": ["a", "bb"], "maxLength": 1}, False),
        ({"enum": ["a", "b"], "const": "c"}, False),
    ],
)
def test_listed_texts_of_which_more_is_asked_are_json(schema, is_text: bool):
    form = tool_formats()["qwen3_coder"].arguments
    assert text_arguments(form, {"properties": {"k": schema}}) == ({"k"} if is_text else set())


@pytest.mark.parametrize("one", LISTED)
def test_names_that_have_marks_in_them_are_refused(one: ToolFormat):
    form = one.arguments
    names = ["", f"a{form.before_value}b", form.before_value]
    names += [] if form.before_name else [f"{one.after_arguments}x"]
    for name in names:
        for parameters in ({"properties": {name: {"type": "integer"}}}, {"required": [name]}):
            tool = Tool("f", {"type": "object", **parameters}, "tools[0]")
            with pytest.raises(UnsupportedGuide, match="cannot be named") as caught:
                tool_guide(one, [tool], no_token, LIMITS)
            assert caught.value.param == "tools[0]" and repr(name) in str(caught.value)
    for name in one.special_tokens:
        tool = Tool("f", {"type": "object", "properties": {f"a{name}": {}}})
        with pytest.raises(UnsupportedGuide, match="cannot be named"):
            tool_guide(one, [tool], {name: 300}.get, LIMITS)


def test_schemas_are_counted_as_they_stand_in_the_guide():
    for one in tool_formats().values():
        guide = tool_guide(one, TOOLS, no_token, LIMITS)
        num_schemas = sum(guide.layout.num_schemas)
        assert guide.source().count("%json ") == num_schemas
        assert len(ToolChoice(TOOLS).schema_params(None, guide.layout)) == num_schemas
    qwen = tool_formats()["qwen3_coder"].arguments
    assert text_arguments(qwen, ORDER) == {"note", "kind", "code"}


@pytest.mark.parametrize("one", [*LISTED, LONGEST_JSON])
def test_five_hundred_tools_are_within_the_limits(one: ToolFormat):
    arguments = {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "string"}}
    parameters = {"type": "object", "properties": arguments, "required": ["a"]}
    tools = [Tool(f"tool_{i}", parameters) for i in range(500)]
    check_limits(tool_guide(one, tools, no_token, LIMITS), LIMITS)
