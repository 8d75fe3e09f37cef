"""Owns the grammar of a message that may call tools: each call names a given tool and has arguments
of its schema.

Free text ends at the format's trigger; from there on the message is tool calls. The grammar is in
Lark, for any backend that enforces all of it.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.backends import AUTO
from specguide.guided.known.call_texts import BEHIND_RULE, LEAST_DEFERRED, CallTexts
from specguide.guided.lark.schema import schema_term
from specguide.guided.tools.argument_schemas import asks_for_distinct_items
from specguide.guided.tools.call_starts import CallStarts, why_in_order
from specguide.guided.tools.formats import ToolFormat
from specguide.guided.tools.layout import CallLayout, SpecialToken
from specguide.guided.tools.message_rules import MessageRules, Tool, WrittenTool
from specguide.guided.tools.message_tag import message_tag
from specguide.guided.tools.shapes import ObjectShape
from specguide.guided.tools.value_shapes import num_schemas
from specguide.guided.written_cache import WrittenCache

_WITHOUT_REFERENCES = 2
"""A version of marshal in which equal values have equal bytes. It tells 1 from 1.0 and from
True."""
_UNIQUE = b"uniqueItems"
_BESIDE = 2000
"""Bytes of a guide and its key, without their characters."""
_guides: WrittenCache[Guide] = WrittenCache(
    lambda guide: _BESIDE + len(guide.source()) + len(guide.as_tag or ""), most_of_one=4 << 20
)


def tool_guide(
    tool_format: ToolFormat,
    tools: Sequence[Tool],
    special_token: SpecialToken,
    limits: GuideConfig,
    *,
    must_call: bool = False,
    is_parallel: bool = True,
    answer: Any = None,
    key_order: str | None = None,
) -> Guide:
    """The grammar of a message. Its JSON Schemas are those of the answer, if any, and of the tools.
    `LLM.tool_guide` calls it with definitions as the OpenAI API has them.

    tool_format: how the model writes calls; see `choose_tool_format`
    tools:       the tools that it may call
    special_token: gives the id of a special token by its text; None for a token that is text
    limits:      settings of the engine's grammars
    must_call:   the message is calls, at least one
    is_parallel: it may have several calls, if the format allows it
    answer:      a JSON schema for messages without calls; None: these are free text
    key_order:   order of keys in the arguments and the answer; see Guide

    Raises InvalidParams where `key_order` is "any" and the format does not allow it. Where only the
    engine's configuration says "any", such a format has the schema's order.
    """
    rules = MessageRules(tool_format, special_token, limits)
    order = key_order or limits.key_order
    if order == "any":
        why_not = why_in_order(tool_format, rules.ids, must_call, answer is not None)
        if why_not is not None and key_order is not None:
            raise InvalidParams(
                f'key_order "any" cannot be enforced with this model\'s tools: {why_not}',
                param="key_order",
            )
        order = "schema" if why_not is not None else order
    make = partial(_guide, rules, tools, limits, must_call, is_parallel, answer, order)
    schemas = [*((tool.name, tool.parameters) for tool in tools), answer]
    try:
        text = marshal.dumps(schemas, _WITHOUT_REFERENCES)
    except ValueError:  # not all values are plain dicts
        return make()
    key = *rules.key, limits, must_call, is_parallel, order
    return _guides.get(text, key, lambda: make(may_be_distinct=_UNIQUE in text))


def _guide(
    rules: MessageRules,
    tools: Sequence[Tool],
    limits: GuideConfig,
    must_call: bool,
    is_parallel: bool,
    answer: Any,
    order: str,
    *,
    may_be_distinct: bool = True,
) -> Guide:
    """The guide of `tool_guide`. may_be_distinct: a schema may ask for distinct items"""
    tool_format = rules.format
    schemas = [*(tool.parameters for tool in tools), answer]
    is_guarded = order == "any" or (
        may_be_distinct
        and any(map(asks_for_distinct_items, schemas))
        and why_in_order(tool_format, rules.ids, must_call, answer is not None) is None
    )
    starts = CallStarts(tool_format, rules.ids) if is_guarded else None
    start = _start(rules, limits, starts, must_call, is_parallel, answer)
    shared = [f"call: {rules.before_name} {rules.rest_of_call}"]
    written = [rules.tool(tool, limits, starts) for tool in tools]
    shapes = {tool.name: one.shape for tool, one in zip(tools, written, strict=True)}
    has_answer = answer is not None
    texts = None if starts else _call_texts(rules, tools, shapes, must_call, has_answer)
    if texts is not None:
        shared.append(f"{BEHIND_RULE}: {rules.behind_arguments(is_parallel)}")
    grammar, places = _joined(["start: " + start[0], *start[1:], *shared], written, rules.shared)
    if texts is not None and texts.ends != "JSON":
        texts = replace(texts, arguments=places)
    counts = [num_schemas(tool_format.arguments, one.shape) for one in written]
    return Guide(
        grammar=grammar,
        backend=AUTO,
        key_order=order,
        param="tools",
        layout=CallLayout(tool_format, rules.ids, shapes, must_call, has_answer, counts),
        calls=None if texts is None else vars(texts).copy(),
        reads_one_way=answer is None,  # free text may begin as a call does
        as_tag=message_tag(tool_format, tools, None if must_call else answer),
    )


def _call_texts(
    rules: MessageRules,
    tools: Sequence[Tool],
    shapes: Mapping[str, ObjectShape],
    must_call: bool,
    has_answer: bool,
) -> CallTexts | None:
    """How calls begin, where their arguments can wait; None where they cannot, or there are few
    tools."""
    if not len(shapes) == len(tools) >= LEAST_DEFERRED:
        return None
    starts = CallStarts(rules.format, rules.ids)
    are_objects = all(tool.parameters.get("type") == "object" for tool in tools)
    return starts.texts(shapes, must_call, has_answer, are_objects=are_objects)


def _start(
    rules: MessageRules,
    limits: GuideConfig,
    starts: CallStarts | None,
    must_call: bool,
    is_parallel: bool,
    answer: Any,
) -> list[str]:
    """The start rule of a message, and the rules that only it uses."""
    tool_format = rules.format
    lead = rules.terms(tool_format.after_lead) if tool_format.begins_inside else ""
    calls = f"{lead} {rules.calls(is_parallel)}".strip()
    if must_call:
        return [calls]
    if answer is None:
        return (
            rules.marked_text(is_parallel)
            if tool_format.is_marked
            else rules.free_text(is_parallel)
        )
    begin, end = rules.terms(tool_format.before_answer), rules.terms(tool_format.after_answer)
    term = schema_term(answer, limits, None if starts is None else starts.of_answer())
    return [f"{calls} | {begin} answer {end}".rstrip(), f"answer: {term}"]


def _joined(
    first: Sequence[str], tools: Sequence[WrittenTool], last: Sequence[str]
) -> tuple[str, list[tuple[int, int, int, int]]]:
    """The grammar of lines and tools; and by tool, begin and end of its arguments' term, and begin
    and end of the rules that only it has, including the line end in front of each."""
    text = "\n".join([*first, "tool: "])
    terms = list[tuple[int, int]]()
    at = len(text)
    for tool in tools:
        begin = at + len(tool.name) + 1
        terms.append((begin, begin + len(tool.arguments)))
        at = begin + len(tool.arguments) + len(" | ")
    text += " | ".join(f"{tool.name} {tool.arguments}" for tool in tools)
    own = ["".join(f"\n{line}" for line in tool.lines) for tool in tools]
    ends = list(accumulate(map(len, own), initial=len(text)))
    places = [(*term, *rules) for term, rules in zip(terms, pairwise(ends), strict=True)]
    return "\n".join([text + "".join(own), *last]), places
