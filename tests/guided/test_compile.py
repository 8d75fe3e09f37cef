"""The grammar compiler: choice of backend, limits of every kind of guide, cache, threads,
time-outs, exit."""

from __future__ import annotations

from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from grammar_backends import WHOLE
from one_compiler import compiler_of

from specguide.config import EngineConfig, GuideConfig
from specguide.engine import Engine
from specguide.errors import (
    GuideLimitExceeded,
    InvalidGuide,
    InvalidParams,
    UnsupportedGuide,
)
from specguide.guide import Guide
from specguide.guided.backends import backend_names
from specguide.guided.compile import GrammarCompiler, backend_report

TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<a>",
        "end": "</a>",
        "content": {
            "type": "json_schema",
            "json_schema": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    },
}


COUNTED = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in "abc"},
    "maxProperties": 2,
    "additionalProperties": False,
}


CHOSEN = (
    (Guide(json_schema={"type": "integer"}), "llguidance", "3", "x"),
    (Guide(json_schema='{"type": "integer"}'), "llguidance", "3", "x"),
    (Guide(json_schema=True), "llguidance", '["x"]', "x"),
    (Guide(json_schema=COUNTED), "llguidance", '{"a":1,"c":2}', '{"a":1,"b":1,"c":1}'),
    (Guide(json_object=True), "llguidance", '{"a":[]}', "[]"),
    (Guide(regex="a+|b"), "llguidance", "aa", "ab"),
    (Guide(choice=["yes", "no", "né\n"]), "llguidance", "né\n", "y"),
    (Guide(grammar='root ::= x "b"\nx ::= [a-c]*'), "xgrammar", "acb", "a"),
    (Guide(grammar='start: A "b"\nA: /a+/'), "llguidance", "aab", "b"),
    (Guide(structural_tag=TAG), "llguidance", '<a>{"a":1}</a>', '<a>{"a":"x"}</a>'),
)

compiler = compiler_of(VOCABULARY, scope="function")


@pytest.mark.parametrize(
    ("guide", "backend", "taken", "refused"), CHOSEN, ids=lambda value: str(value)[:40]
)
def test_auto_takes_the_first_backend_that_enforces_the_guide(
    compiler: GrammarCompiler, guide: Guide, backend: str, taken: str, refused: str
) -> None:
    grammar = compiler.compile(guide)
    assert grammar.backend == backend and grammar.num_bytes > 0
    assert takes(grammar, taken) and not takes(grammar, refused)


def test_an_explicit_backend_is_used_or_refused(compiler, new_compiler):
    for name in WHOLE:
        assert (
            compiler.compile(Guide(json_schema={"type": "integer"}, backend=name)).backend == name
        )
    ranged = {
        "type": "object",
        "properties": {"a": {"type": "integer", "multipleOf": 7, "minimum": 3}},
    }
    assert compiler.compile(Guide(json_schema=ranged)).backend == "llguidance"
    with pytest.raises(UnsupportedGuide, match="multipleOf at /properties/a/multipleOf") as refusal:
        compiler.compile(Guide(json_schema=ranged, backend="xgrammar"))
    assert (refusal.value.keyword, refusal.value.path) == ("multipleOf", "/properties/a/multipleOf")
    configured = new_compiler(VOCABULARY, backend="xgrammar")
    assert configured.compile(Guide(regex="a+")).backend == "xgrammar"


def test_a_refusal_says_why_of_every_backend(compiler: GrammarCompiler) -> None:
    with pytest.raises(
        UnsupportedGuide, match="llguidance and xgrammar: multipleOf at /items/not/multipleOf"
    ) as refusal:
        compiler.compile(Guide(json_schema={"items": {"not": {"multipleOf": 0.5}}}))
    assert (refusal.value.keyword, refusal.value.path) == ("multipleOf", "/items/not/multipleOf")
    overlapping = {
        "patternProperties": {"^(?:a|b)*a(?:a|b){12}$": {"type": "integer"}, "b": {"minimum": 3}}
    }
    with pytest.raises(
        UnsupportedGuide, match=r"llguidance cannot .*disjoint.*; xgrammar: patternProperties at"
    ):
        compiler.compile(Guide(json_schema=overlapping))


def test_malformed_guides_are_refused(compiler: GrammarCompiler) -> None:
    for guide, words in (
        (Guide(json_schema={"type": "nonsense"}), "type at /type"),
        (Guide(regex="a("), "missing"),
        (Guide(grammar="nonsense"), "neither EBNF"),
        (Guide(grammar="root ::= nowhere"), "malformed"),
        (Guide(grammar="start: nowhere"), "malformed"),
        (Guide(structural_tag={}), "format"),
        (Guide(json_schema={"enum": []}), "no value at all"),
    ):
        with pytest.raises(InvalidGuide, match=words) as refusal:
            compiler.compile(guide)
        assert not isinstance(refusal.value, UnsupportedGuide)


def test_grammars_are_held_to_the_same_standard(compiler: GrammarCompiler) -> None:
    with pytest.raises(UnsupportedGuide, match="lookahead"):
        compiler.compile(Guide(grammar='root ::= "a" (="b") "c"'))
    assert takes(compiler.compile(Guide(grammar='root ::= "(=" [(=]')), "(=(")
    for lark in ("start: /a^b/", 'start: %json {"not": {}}', "start: /a$/"):
        with pytest.raises(UnsupportedGuide, match="Lark"):
            compiler.compile(Guide(grammar=lark, backend="xgrammar"))
    inside = compiler.compile(Guide(grammar='start: "<" %json {"not": {"type": "string"}} ">"'))
    assert takes(inside, "<1>") and not takes(inside, '<"a">')
    with pytest.raises(UnsupportedGuide, match="uniqueItems"):
        compiler.compile(Guide(grammar='start: %json {"type": "array", "uniqueItems": true}'))
    content = {"type": "json_schema", "json_schema": {"not": {"type": "null"}}}
    tag = {**TAG, "format": {**TAG["format"], "content": content}}
    assert not takes(compiler.compile(Guide(structural_tag=tag)), "<a>null</a>")
    tag = {
        **TAG,
        "format": {**TAG["format"], "content": {"type": "regex", "pattern": "(?:b(?=ba))*"}},
    }
    with pytest.raises(UnsupportedGuide, match="lookahead"):
        compiler.compile(Guide(structural_tag=tag))


DEEP: Any = {}


for _ in range(80):
    DEEP = {"properties": {"a": DEEP}}


@pytest.mark.parametrize(
    "guide",
    [
        Guide(json_schema=DEEP),
        Guide(regex="(" * 200 + "a" + ")" * 200),
        Guide(choice=["[" * 200]),
        Guide(grammar="root ::= " + "(" * 200 + '"a"' + ")" * 200),
        Guide(structural_tag={**TAG, "more": DEEP}),
        Guide(grammar="start: " + "(" * 200 + '"a"' + ")" * 200),
    ],
    ids=lambda guide: guide.kind,
)
def test_every_kind_of_guide_is_limited_in_depth_and_size(compiler, new_compiler, guide):
    with pytest.raises(GuideLimitExceeded, match="max_source_bytes") as refusal:
        new_compiler(VOCABULARY, max_source_bytes=100).compile(guide)
    assert refusal.value.limit == "max_source_bytes"
    if guide.kind == "choice":  # its options are text, not structure
        assert compiler.compile(guide)
        return
    with pytest.raises(GuideLimitExceeded, match="max_depth") as refusal:
        compiler.compile(guide)
    assert refusal.value.limit == "max_depth"


@pytest.mark.parametrize(
    ("guide", "limit"),
    [
        (Guide(json_schema={"enum": list(range(300))}), "max_values"),
        (Guide(choice=list(map(str, range(300)))), "max_values"),
        (
            Guide(
                grammar="".join(f"r{i} ::= r{i + 1}\n" for i in range(300))
                + 'r300 ::= "a"\nroot ::= r0'
            ),
            "max_rules",
        ),
        (
            Guide(
                grammar="".join(f"r{i}: r{i + 1}\n" for i in range(300)) + 'r300: "a"\nstart: r0'
            ),
            "max_rules",
        ),
        (
            Guide(
                grammar="// root ::= in EBNF\n"
                + "".join(f"r{i}: r{i + 1}\n" for i in range(300))
                + 'r300: "a"\nstart: r0'
            ),
            "max_rules",
        ),
    ],
    ids=["schema", "choice", "EBNF", "Lark", "Lark with a comment"],
)
def test_what_a_guide_holds_is_counted(compiler, guide, limit, new_compiler):
    assert compiler.compile(guide)
    small = new_compiler(VOCABULARY, max_values=200, max_rules=200)
    with pytest.raises(GuideLimitExceeded, match=limit) as refusal:
        small.compile(guide)
    assert refusal.value.limit == limit


@pytest.mark.parametrize(
    ("guide", "words"),
    [
        (Guide(regex="a" * 70_000), "70000 characters"),
        (
            Guide(json_schema={"oneOf": [{"const": i} for i in range(3000)]}),
            "oneOf at /oneOf takes more than",
        ),
        (
            Guide(
                json_schema={
                    "$ref": "#/$defs/d0",
                    "$defs": {
                        "d5000": {"type": "null"},
                        **{
                            f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}
                            for i in range(5000)
                        },
                    },
                }
            ),
            "4000 defini",
        ),
    ],
    ids=["regex", "oneOf", "definitions"],
)
def test_what_would_take_too_long_or_too_deep_is_refused(
    compiler: GrammarCompiler, guide: Guide, words: str
) -> None:
    with pytest.raises(InvalidGuide, match=words):
        compiler.compile(guide)


def test_the_longest_chains_that_are_taken_fit_on_the_stack(compiler: GrammarCompiler) -> None:
    rules = "\n".join(f'r{i}: r{i + 1} "b"' for i in range(990))
    assert compiler.compile(Guide(grammar=f'start: r0\n{rules}\nr990: "a"'))
    assert compiler.compile(
        Guide(
            json_schema={
                "$ref": "#/$defs/d0",
                "$defs": {
                    "d3990": {"type": "null"},
                    **{
                        f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}
                        for i in range(3990)
                    },
                },
            }
        )
    )


def test_an_unknown_backend_is_refused_where_guides_are_compiled(
    compiler: GrammarCompiler,
) -> None:
    words = 'guide backend \'outlines\' is unknown; use "auto", "llguidance"'
    for guide in (Guide(regex="a", backend="outlines"), Guide(matcher=list, backend="outlines")):
        with pytest.raises(InvalidGuide, match=words) as caught:
            compiler.compile(guide)
        assert caught.value.param == "backend"


def test_a_configuration_of_an_unknown_backend_is_refused_before_a_model_is_loaded() -> None:
    config, words = GuideConfig(backend="outlines"), "known: auto, llguidance, xgrammar"
    for begin in (
        lambda: GrammarCompiler(VOCABULARY, config),
        lambda: Engine(EngineConfig("/nowhere", guide=config)),
    ):
        with pytest.raises(InvalidParams, match=words) as caught:
            begin()
        assert caught.value.param == "guide_backend"


def test_the_report_names_every_backend() -> None:
    report = backend_report()
    assert [status.name for status in report] == list(backend_names())
    assert all(status.version and (status.native or status.reason) for status in report)
