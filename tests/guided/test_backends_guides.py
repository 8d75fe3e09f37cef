"""What each backend makes of every kind of guide: texts taken and refused, and the words of
errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from byte_vocabulary import backend, takes
from grammar_backends import WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar

BOTH = pytest.mark.parametrize("name", WHOLE)
PERSON = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
}


def compiled(name: str, limits: GuideConfig | None = None, **kind: Any) -> CompiledGrammar:
    return backend(name, True).compile(Guide(**kind), limits or GuideConfig())


@BOTH
def test_json_schema(name: str) -> None:
    grammar = compiled(name, json_schema=PERSON)
    for text in (
        '{"a":1}',
        '{"a":1,"b":"x"}',
        '{"a": 1, "b": "x"}',
        '{\n  "a": 1\n}',
        '{"a":-12,"b":"é\\"\\n"}',
        '{"a":1,"c":[true,null]}',
        '{"a":1,"b":"x","c":{"d":0.5}}',
    ):
        assert takes(grammar, text), text
    for text in (
        "{}",
        '{"b":"x"}',
        '{"a":"1"}',
        '{"a":1,"b":2}',
        '{"a":1',
        ' {"a":1}',
        '{"a":1} ',
        "[1]",
        '{"a":1.5}',
        '{"a":1,}',
        '{"a":01}',
        '{"a":1,"b":"\n"}',
    ):
        assert not takes(grammar, text), text


@BOTH
def test_unnamed_properties_are_refused_only_where_the_schema_says_so(name: str) -> None:
    closed = compiled(name, json_schema={**PERSON, "additionalProperties": False})
    assert takes(closed, '{"a":1,"b":"x"}') and not takes(closed, '{"a":1,"c":1}')
    typed = compiled(name, json_schema={**PERSON, "additionalProperties": {"type": "boolean"}})
    assert takes(typed, '{"a":1,"c":true}') and not takes(typed, '{"a":1,"c":1}')
    items = compiled(name, json_schema={"type": "array", "prefixItems": [{"type": "integer"}]})
    assert takes(items, '[1,"x",null]') and not takes(items, '["x"]')


@BOTH
@pytest.mark.parametrize("most", [1, 3, 8])
def test_whitespace_is_bounded(name: str, most: int) -> None:
    grammar = compiled(name, GuideConfig(max_whitespace=most), json_schema=PERSON)
    for space in ("", " ", " " * most, "\n" * most, ("\r\n\t ")[:most]):
        assert takes(grammar, f'{{{space}"a"{space}:{space}1{space},{space}"b":"x"{space}}}'), repr(
            space
        )
    for text in ('{{{}"a":1}}', '{{"a"{}:1}}', '{{"a":{}1}}', '{{"a":1{}}}', '{{"a":1,{}"b":"x"}}'):
        assert not takes(grammar, text.format(" " * (most + 1))), text
    assert takes(grammar, '{"a":1,"b":"' + " " * 40 + '"}')


@BOTH
def test_whitespace_can_be_ruled_out(name: str) -> None:
    grammar = compiled(name, GuideConfig(max_whitespace=0), json_schema=PERSON)
    assert takes(grammar, '{"a":1,"b":"x y"}')
    assert not takes(grammar, '{"a": 1}') and not takes(grammar, '{"a":1, "b":"x"}')


@BOTH
def test_a_schema_cannot_set_the_whitespace_or_loosen_itself(name: str) -> None:
    options = {"whitespace_pattern": " *", "lenient": True, "coerce_one_of": True}
    grammar = compiled(name, json_schema={**PERSON, "x-guidance": options})
    assert not takes(grammar, '{"a":' + " " * 20 + "1}")


@BOTH
def test_boolean_schemas(name: str) -> None:
    anything = compiled(name, json_schema=True)
    assert all(takes(anything, text) for text in ("1", '"x"', "[1,2]", '{"a":null}'))
    with pytest.raises(InvalidGuide):
        compiled(name, json_schema=False)


@BOTH
def test_json_object(name: str) -> None:
    grammar = compiled(name, json_object=True)
    for text in ("{}", "{ }", '{"a": [1, {"b": null}], "c": "é"}'):
        assert takes(grammar, text), text
    for text in ("[]", "1", '{"a":1', '{"a":' + " " * 9 + "1}", "{} "):
        assert not takes(grammar, text), text


@BOTH
def test_a_regex_matches_the_whole_output(name: str) -> None:
    grammar = compiled(name, regex="[a-c]+-[0-9]{2,3}")
    assert takes(grammar, "abc-12") and takes(grammar, "a-123")
    assert not any(
        takes(grammar, text) for text in ("xabc-12", "abc-1", "abc-1234", "", "abc-12\n")
    )
    assert takes(compiled(name, regex='/[0-9]+/"x"'), '/12/"x"')


@BOTH
@pytest.mark.parametrize(
    "source",
    [
        'root ::= "(" root ")" | item\nitem ::= [a-z]+',
        'start: "(" start ")" | ITEM\nITEM: /[a-z]+/',
    ],
)
def test_grammars_of_both_forms(name: str, source: str) -> None:
    grammar = compiled(name, grammar=source)
    assert takes(grammar, "abc") and takes(grammar, "((x))")
    assert not any(takes(grammar, text) for text in ("((x)", "()", "", "x)"))


@BOTH
def test_choice(name: str) -> None:
    options = [
        "a",
        "ab",
        "abc",
        'quote " slash \\',
        "line\nbreak\t\x01\x7f0",
        "é 😀 \u2028",
        "root ::=",
        "/x/",
        "[a]*",
    ]
    grammar = compiled(name, choice=options)
    assert all(takes(grammar, option) for option in options)
    assert not any(takes(grammar, text) for text in ("", "abcd", "b", "line", "x"))


@BOTH
@settings(max_examples=25)
@given(
    options=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4
    )
)
def test_any_strings_can_be_choices(name: str, options: list[str]) -> None:
    grammar = compiled(name, choice=options)
    assert all(takes(grammar, option) for option in options)
    assert takes(grammar, options[0] + "x") == (options[0] + "x" in options)


CALL = {
    "type": "tag",
    "begin": "<call=f>",
    "content": {"type": "json_schema", "json_schema": PERSON},
    "end": "</call>",
}
CALLS = {"type": "triggered_tags", "triggers": ["<call="], "tags": [CALL]}


def tag(format_: dict[str, Any]) -> dict[str, Any]:
    return {"type": "structural_tag", "format": format_}


@BOTH
@pytest.mark.parametrize(
    ("format_", "taken", "refused"),
    [
        (
            CALLS,
            [
                "",
                "free text",
                'so: <call=f>{"a": 1}</call> done',
                '<call=f>{"a":1,"z":[]}</call><call=f>{"a":2}</call>',
            ],
            [
                "<call=g>",
                'so <call=f>{"b":1}</call>',
                "<call=",
                '<call=f>{"a":' + " " * 9 + "1}</call>",
            ],
        ),
        (
            {**CALLS, "at_least_one": True},
            ['<call=f>{"a":1}</call>', '<call=f>{"a":1}</call> and more'],
            ["", "text"],
        ),
        (
            {**CALLS, "stop_after_first": True},
            ["", "text", 'text <call=f>{"a":1}</call>'],
            ['<call=f>{"a":1}</call> more'],
        ),
        (
            {**CALLS, "at_least_one": True, "stop_after_first": True},
            ['<call=f>{"a":1}</call>'],
            ["", '<call=f>{"a":1}</call><call=f>{"a":1}</call>'],
        ),
        (
            {"type": "tags_with_separator", "tags": [CALL], "separator": ", "},
            ["", '<call=f>{"a":1}</call>', '<call=f>{"a":1}</call>, <call=f>{"a":2}</call>'],
            ['<call=f>{"a":1}</call><call=f>{"a":2}</call>', "x"],
        ),
        (
            {
                "type": "sequence",
                "elements": [
                    {
                        "type": "tag",
                        "begin": "<think>",
                        "content": {"type": "any_text"},
                        "end": "</think>",
                    },
                    {
                        "type": "or",
                        "elements": [
                            {"type": "const_string", "value": "yes"},
                            {"type": "regex", "pattern": "[0-9]+"},
                        ],
                    },
                ],
            },
            ["<think>why?\n</think>yes", "<think></think>12"],
            ["yes", "<think>yes", "<think></think>maybe"],
        ),
        (
            {
                "type": "repeat",
                "min": 1,
                "max": 2,
                "content": {"type": "const_string", "value": "ab"},
            },
            ["ab", "abab"],
            ["", "ababab"],
        ),
        (
            {
                "type": "sequence",
                "elements": [
                    {"type": "optional", "content": {"type": "const_string", "value": "a"}},
                    {"type": "star", "content": {"type": "const_string", "value": "b"}},
                    {"type": "plus", "content": {"type": "const_string", "value": "c"}},
                ],
            },
            ["c", "abbcc", "bc"],
            ["ab", "aac", ""],
        ),
        ({"type": "regex", "pattern": "x*y"}, ["y", "xxy"], ["x", "yy"]),
        ({"type": "any_text", "excludes": ["stop"]}, ["", "sto p"], ["stop", "a stop b"]),
    ],
)
def test_structural_tags(
    name: str, format_: dict[str, Any], taken: list[str], refused: list[str]
) -> None:
    grammar = compiled(name, structural_tag=tag(format_))
    for text in taken:
        assert takes(grammar, text), text
    for text in refused:
        assert not takes(grammar, text), text


@pytest.mark.parametrize(
    "format_",
    [
        {"type": "token", "token": 5},
        {"type": "json_schema", "json_schema": PERSON, "style": "qwen_xml"},
        {
            "type": "sequence",
            "elements": [{"type": "any_text"}, {"type": "const_string", "value": "end"}],
        },
        {**CALLS, "excludes": ["no"]},
        {"type": "any_text", "max_tokens": 5},
        {"type": "grammar", "grammar": 'root ::= "x" root | "y"'},
        {
            "type": "tag",
            "begin": "<",
            "content": {"type": "json_schema", "json_schema": True},
            "end": "END",
        },
        {
            "type": "tag",
            "begin": {"type": "token", "token": 5},
            "content": {"type": "any_text"},
            "end": "x",
        },
    ],
)
def test_llguidance_refuses_structural_tags_that_it_cannot_express(format_: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedGuide, match="structural tag with"):
        compiled("llguidance", structural_tag=tag(format_))


@BOTH
@pytest.mark.parametrize(
    "kind",
    [
        {"json_schema": {"type": "strnig"}},
        {"json_schema": {"type": "string", "pattern": "a("}},
        {"regex": "a("},
        {"grammar": "root ::= missing"},
        {"grammar": "start: missing"},
        {"grammar": 'root ::= "a'},
        {"structural_tag": {"no": "format"}},
        {"structural_tag": tag({"type": "const_string"})},
    ],
)
def test_a_malformed_guide_is_refused_in_the_librarys_words(
    name: str, kind: dict[str, Any]
) -> None:
    with pytest.raises(InvalidGuide) as caught:
        compiled(name, **kind)
    assert not isinstance(caught.value, UnsupportedGuide)
    assert next(iter(kind)).split("_")[0] in str(caught.value)
    assert not any(
        noise in str(caught.value)
        for noise in ("/project/", "Check failed", "\n   1 | start: %json")
    )


@BOTH
@pytest.mark.parametrize(
    "kind",
    [
        {"regex": "a\0b"},
        {"grammar": 'start: "a\0"'},
        {"regex": "\ud800"},
        {"choice": ["\ud800"]},
        {"json_schema": '{"const":"\\ud800"}'},
    ],
)
def test_text_that_no_library_can_be_handed_is_refused(name: str, kind: dict[str, Any]) -> None:
    with pytest.raises(InvalidGuide, match=r"U\+0000|U\+D800, half of a surrogate pair"):
        compiled(name, **kind)


def test_an_error_quotes_no_line_of_ours() -> None:
    with pytest.raises(UnsupportedGuide, match="priority") as caught:
        compiled("llguidance", grammar='start: r\nr.-1: "a"')
    assert 'r.-1: "a"' in str(caught.value) and "%llguidance" not in str(caught.value)


def test_an_error_says_as_which_form_a_grammar_was_read() -> None:
    for name in WHOLE:
        with pytest.raises(InvalidGuide, match="read as EBNF"):
            compiled(name, grammar="root ::= missing")
        with pytest.raises(InvalidGuide, match="read as Lark"):
            compiled(name, grammar="start: missing")
        with pytest.raises(InvalidGuide, match=r"neither EBNF .* nor Lark"):
            compiled(name, grammar="hello")


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"oneOf": [{"type": "string"}, {"minLength": 3}]}, "oneOf"),
        ({"type": "string", "format": "no-such-format"}, "format"),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, "if"),
        ({"type": "string", "pattern": "(?=a)b"}, None),
    ],
)
def test_llguidance_names_the_keyword_that_it_does_not_support(
    schema: dict[str, Any], keyword: str | None
) -> None:
    with pytest.raises(UnsupportedGuide) as caught:
        compiled("llguidance", json_schema=schema)
    if keyword == "if":
        assert caught.value.keyword in ("if", "then")
    else:
        assert caught.value.keyword == keyword


@pytest.mark.parametrize("name", WHOLE)
def test_a_compiled_grammar_states_its_size(name: str) -> None:
    grammar = compiled(name, json_schema=PERSON)
    assert grammar.backend == name and grammar.num_bytes > 1000


# Texts where a backend's answer differs from the label, with the reason.
KNOWN = {
    # The label wants unnamed properties refused; JSON Schema allows them.
    ("xgrammar", '{"b": "hello"}'),
    ("llguidance", '{"b": "hello"}'),
}


@BOTH
def test_published_structural_tags(name: str, data_dir: Any) -> None:
    limits, grammars, num_checked = GuideConfig(max_whitespace=100), {}, 0
    for line in (data_dir / "xgrammar_structural_tags.jsonl").open():
        record = json.loads(line)
        if record["kind"] != "structural_tag":
            continue
        source = record["structural_tag"]
        key = json.dumps(source)
        if key not in grammars:
            try:
                guide = Guide(structural_tag=source if "format" in source else tag(source))
                grammars[key] = backend(name, True).compile(guide, limits)
            except InvalidGuide:
                grammars[key] = None
        if grammars[key] is not None and (name, record["text"]) not in KNOWN:
            assert takes(grammars[key], record["text"]) == record["accepted"], (
                source,
                record["text"],
            )
            num_checked += 1
    assert num_checked >= {"xgrammar": 517, "llguidance": 320}[name]
