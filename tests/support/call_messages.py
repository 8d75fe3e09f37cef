"""Owns messages with calls of many tools, in each format, over a vocabulary with its marks."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import numpy as np

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backend import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.known.call_texts import LEAST_DEFERRED
from specguide.guided.matcher import Matcher, allowed_tokens
from specguide.guided.tools import Tool, tool_formats, tool_guide
from specguide.guided.tools.formats import ToolFormat
from specguide.guided.wrappers.call_grammar import CallGrammar
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.tokenizer.vocabulary import Vocabulary

FORMATS = tool_formats()
MARKS = sorted({mark for one in FORMATS.values() for mark in one.special_tokens})
PIECES = (
    '", "', 'arguments": ', '": ', '": {"', "}}\n", '"}', '{"', '"}}', "}, {", '", "arg', '{"name',
    '": "we', "we", "ath", 'er"', "er.a", 'er", "', " {", "\n", ' "', '":', "1}", "}\n```", "[1",
    "\n```json\n", "json", "{}", "}}", "tool_", '\\"', 'a"}',
    # which reach from names into arguments, or from these into what is behind
    "{a", "er{a:", "{}<", "er(", "(a", "er(a=", "()", '(a="', "('", "')", ")]", "), we(", '"), ',
    'er">\n', '">\n<', 'er">\n</', '">\n<parameter name="a', ">{", 'er>{"', ">{}<", "er>\n<",
    "</invoke>\n", "</parameter>\n", '</parameter>\n</invoke>\n<invoke name="we', '<invoke name="',
    'er", "arguments": {"a', '": {}', "), tool_1()", "</function>", "='", ">\n</",
    "<![", "CDATA[", "]]>", "]]></", '"><', 'a"><![CDATA[', "</param>", '<param name="a">',
    '</param></function>\n<function name="we', ']]></param></function>\n<function name="',
    'er\n{"', "\n{", "er\n ", "we\n\n", "}>>>", ">>>we", "}>>>weather\n{", ">>>>",
)  # fmt: skip
SPELT = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in PIECES)]
FIRST_MARK = len(SPELT)
VOCABULARY = Vocabulary((*SPELT, *[b""] * (len(MARKS) + 1)), (FIRST_MARK + len(MARKS),))
END = VOCABULARY.eos_token_ids[0]
ENDS = b'"},'
LIMITS = GuideConfig()
PLAIN = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
}
CLOSED = {**PLAIN, "additionalProperties": False, "properties": {"a": {"enum": ["{", "]", 1]}}}
BOUNDED = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}, "arguments": PLAIN}}
SCHEMAS = [PLAIN, CLOSED, BOUNDED, NAMED, {"type": "object"}, {"enum": ["x", 12]}, {}]
NAMES = ["we", "weather", "weather.a", "tool_1"]
TOOLS = [
    Tool(NAMES[i] if i < len(NAMES) else f"other_{i}", SCHEMAS[i % len(SCHEMAS)])
    for i in range(LEAST_DEFERRED)
]
LISTED = [  # arguments that can be written one by one
    Tool(one.name, one.parameters if "enum" not in one.parameters else {"properties": {"n": PLAIN}})
    for one in TOOLS
]
ANSWER = {"type": "object", "properties": {"x": {"type": "string"}}}
OF_LISTED = [name for name, one in FORMATS.items() if one.arguments]
LIKE_MARKS = [
    *("x", "", "'", "(", ") ]", "[", "{", ">{", "</parameter>", "), weather(a=", 'we">\n<'),
    *(', we(', '}, {"name": "we"', '</invoke>\n<invoke name="we">\n'),
    *('</param></function>\n<function name="we">', "</param>", "<![CDATA[", "]]>", '"><![CDATA['),
    *('</param><param name="a"><![CDATA[', '<param name="', '</param><param name=", ">'),
]  # fmt: skip


def random_message(name: str, choose: random.Random, **more: Any) -> str:
    """Calls, of which texts look like marks. more: as of `asked`"""
    one = FORMATS[name]
    is_one = one.separator is None or more.get("is_parallel") is False
    calls = [_random_call(one, choose) for _ in range(1 if is_one else choose.randint(1, 4))]
    has_lead = not (more.get("must_call") or "answer" in more)
    return one.message(calls, lead="so " if has_lead else "")


def _random_call(one: ToolFormat, choose: random.Random) -> tuple[str, str]:
    tool = choose.choice(TOOLS if one.arguments is None else LISTED)
    if "enum" in tool.parameters:
        return tool.name, '"x"'
    text = choose.choice(LIKE_MARKS)
    values = {"string": text, "array": [1, 2], "integer": 5, "object": {"a": text}}
    properties = tool.parameters.get("properties", {})
    left_out = {key for key in properties if choose.random() < 0.4}
    arguments = {
        key: values.get(schema.get("type"), "{")
        for key, schema in properties.items()
        if key in tool.parameters.get("required", ()) or key not in left_out
    }
    return tool.name, json.dumps(arguments)


def spelt(text: str, choose: random.Random | None = None) -> list[int]:
    """Token ids, the longest first, or any that fit; marks as special tokens."""
    known = {mark: FIRST_MARK + i for i, mark in enumerate(MARKS)}
    pieces = {piece: 256 + i for i, piece in enumerate(PIECES)}
    tokens: list[int] = []
    while text:
        found = [one for one in known if text.startswith(one)]
        found = found or [one for one in pieces if text.startswith(one)]
        longest = max(found, key=len, default=text[0])
        one = longest if choose is None else choose.choice([*found, longest])
        one = text[0] if choose and longest not in known and choose.random() < 0.2 else one
        tokens += [(known | pieces)[one]] if one in known or one in pieces else [*one.encode()]
        text = text[len(one) :]
    return tokens


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, LIMITS)


def special(text: str) -> int | None:
    return FIRST_MARK + MARKS.index(text) if text in MARKS else None


def asked(name: str, tools: list[Tool] | None = None, **more: Any) -> Guide:
    usual = LISTED if FORMATS[name].arguments is not None else TOOLS
    return tool_guide(FORMATS[name], usual if tools is None else tools, special, LIMITS, **more)


def is_deferred(grammar: CompiledGrammar) -> bool:
    inner = grammar.inner if isinstance(grammar, EndingGrammar) else grammar
    return isinstance(inner, CallGrammar)


def row_of(matcher: Matcher) -> np.ndarray:
    row = np.zeros(VOCABULARY.num_words, np.int32)
    matcher.fill(row)
    return allowed_tokens(row)
