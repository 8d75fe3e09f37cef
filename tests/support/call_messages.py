"""Owns messages with calls of many tools, in each format, over a vocabulary with its marks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backend import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.matcher import Matcher, allowed_tokens
from specguide.guided.tools import Tool, tool_formats, tool_guide
from specguide.guided.tools.grammar import LEAST_DEFERRED
from specguide.guided.wrappers.call_grammar import CallGrammar
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.tokenizer.vocabulary import Vocabulary

FORMATS = tool_formats()
MARKS = sorted({mark for one in FORMATS.values() for mark in one.special_tokens})
PIECES = (
    '", "', 'arguments": ', '": ', '": {"', "}}\n", '"}', '{"', '"}}', "}, {", '", "arg', '{"name',
    '": "we', "we", "ath", 'er"', "er.a", 'er", "', " {", "\n", ' "', '":', "1}", "}\n```", "[1",
    "\n```json\n", "json", "{}", "}}", "tool_", '\\"', 'a"}',
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
OF_LISTED = ["glm45", "qwen3_coder", "seed_oss", "kimi_k3"]
DEFERRING = [
    *OF_LISTED,
    *("kimi_k2", "mistral_call_id", "solar_open"),  # with ids, and a mark for each call
    *(
        name
        for name, one in FORMATS.items()
        if one.arguments is None
        and not one.ids
        and not any(one.before_arguments in piece[:-1] for piece in PIECES)  # reaches over it
    ),
]


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
