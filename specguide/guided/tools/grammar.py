"""Owns the grammar of a message that may call tools: each call names a given tool and has arguments
of its schema.

Free text ends at the format's trigger: from there on the message is tool calls. Written in Lark,
for whichever backend takes all that it says.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide import Guide
from specguide.guided.backends import AUTO
from specguide.guided.known.call_texts import BEHIND_RULE
from specguide.guided.lark.literal import literal, pattern_of
from specguide.guided.lark.schema import schema_term
from specguide.guided.tools.argument_schemas import asks_for_distinct_items
from specguide.guided.tools.arguments import ArgumentRules
from specguide.guided.tools.call_starts import CallStarts, parts_of, why_in_order
from specguide.guided.tools.formats import IDS, ToolFormat, around_id
from specguide.guided.tools.layout import CallLayout, SpecialToken
from specguide.guided.tools.message_tag import message_tag
from specguide.guided.tools.shapes import ObjectShape
from specguide.guided.tools.value_shapes import num_schemas
from specguide.guided.written_cache import WrittenCache

LEAST_DEFERRED = 32
"""Least number of tools whose arguments are compiled only when a call of theirs begins."""
_WITHOUT_REFERENCES = 2
"""A version of marshal in which equal values are equal bytes. It tells 1 from 1.0 and from True."""
_BESIDE = 2000
"""Bytes that a guide and its key take beside their characters."""
_guides: WrittenCache[Guide] = WrittenCache(
    lambda guide: _BESIDE + len(guide.source()) + len(guide.as_tag or ""), most_of_one=4 << 20
)


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    parameters: the JSON schema of its arguments, an object's
    param:      the request's field that has the schema
    """

    name: str
    parameters: Mapping[str, Any]
    param: str = "tools"


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
    """The grammar of a message. Its JSON Schemas are those of the answer, if there is one, and of
    the tools.

    must_call:   it is calls, at least one
    is_parallel: it may have several, if the format has
    answer:      a JSON schema: what is not calls matches it; None: that is free text
    key_order:   of the arguments and the answer, as of a Guide

    Raises InvalidParams where the format does not let keys come in any order, as `key_order` has
    it; where only the engine has it, they come in the schema's order then.
    """
    rules = _Rules(tool_format, special_token, limits)
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
    told = [*((tool.name, tool.parameters) for tool in tools), answer]
    try:
        text = marshal.dumps(told, _WITHOUT_REFERENCES)
    except ValueError:  # no plain dicts
        return make()
    return _guides.get(text, (*rules.key, limits, must_call, is_parallel, order), make)


def _guide(
    rules: _Rules,
    tools: Sequence[Tool],
    limits: GuideConfig,
    must_call: bool,
    is_parallel: bool,
    answer: Any,
    order: str,
) -> Guide:
    tool_format = rules.format
    schemas = [*(tool.parameters for tool in tools), answer]
    is_guarded = order == "any" or (
        any(map(asks_for_distinct_items, schemas))
        and why_in_order(tool_format, rules.ids, must_call, answer is not None) is None
    )
    starts = CallStarts(tool_format, rules.ids) if is_guarded else None
    start = _start(rules, limits, starts, must_call, is_parallel, answer)
    shared = [f"call: {rules.before_name} {rules.rest_of_call}"]
    texts = None
    if starts is None and len(tools) >= LEAST_DEFERRED:
        names = [tool.name for tool in tools]
        found = CallStarts(tool_format, rules.ids)
        texts = found.texts(names, must_call, answer is not None)
        if texts is not None:
            shared.append(f"{BEHIND_RULE}: {rules.behind_arguments(is_parallel)}")
    written = [rules.tool(tool, limits, starts) for tool in tools]
    grammar, places = _joined(["start: " + start[0], *start[1:], *shared], written, rules.shared)
    if texts is not None and found.are_marked:
        texts = replace(texts, arguments=places)
    shapes = {tool.name: one.shape for tool, one in zip(tools, written, strict=True)}
    counts = [num_schemas(tool_format.arguments, one.shape) for one in written]
    has_answer = answer is not None
    return Guide(
        grammar=grammar,
        backend=AUTO,
        key_order=order,
        param="tools",
        layout=CallLayout(tool_format, rules.ids, shapes, must_call, has_answer, counts),
        calls=None if texts is None else vars(texts).copy(),
        reads_one_way=answer is None,  # which may begin as a call does
        as_tag=message_tag(tool_format, tools, None if must_call else answer),
    )


def _start(
    rules: _Rules,
    limits: GuideConfig,
    starts: CallStarts | None,
    must_call: bool,
    is_parallel: bool,
    answer: Any,
) -> list[str]:
    """What a message is, and the rules that are its own."""
    one = rules.format
    lead = rules.terms(one.after_lead) if one.begins_inside else ""
    calls = f"{lead} {rules.calls(is_parallel)}".strip()
    if must_call:
        return [calls]
    if answer is None:
        return rules.marked_text(is_parallel) if one.is_marked else rules.free_text(is_parallel)
    begin, end = rules.terms(one.before_answer), rules.terms(one.after_answer)
    term = schema_term(answer, limits, None if starts is None else starts.of_answer())
    return [f"{calls} | {begin} answer {end}".rstrip(), f"answer: {term}"]


_NO_SHAPE = ObjectShape()
_TEXT = r"TEXT: /(?s:.+)/"


class _WrittenTool(NamedTuple):
    """A tool as Lark: the terms of its name and its arguments, and the rules that it alone has."""

    name: str
    shape: ObjectShape
    arguments: str
    lines: Sequence[str] = ()


def _joined(
    first: Sequence[str], tools: Sequence[_WrittenTool], last: Sequence[str]
) -> tuple[str, list[tuple[int, int, int, int]]]:
    """The grammar of lines and tools; and by tool the place of its arguments' term, and that of the
    rules that it alone has, each with the line's end before it."""
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


def _rule_of(one: str) -> str:
    """The name of the rule for one of IDS."""
    return one.strip("{}").upper()


class _Rules:
    """Parts of a format as Lark."""

    def __init__(
        self, tool_format: ToolFormat, special_token: SpecialToken, limits: GuideConfig
    ) -> None:
        self.format = tool_format
        self._known: dict[str, str] = {}
        ids = {text: special_token(text) for text in tool_format.special_tokens}
        self.ids = {text: token for text, token in ids.items() if token is not None}
        self.key = (repr(tool_format), *self.ids.items())
        """What these rules depend on."""
        self._after_arguments = self._with_id(tool_format.after_arguments)
        self.before_name = self._with_id(tool_format.before_name)
        self.rest_of_call = f"tool {self._after_arguments}"
        self._behind_name, _ = around_id(tool_format.before_arguments)
        lead = self._with_id(tool_format.before_arguments.removeprefix(self._behind_name))
        self._lead = f"{lead} " if lead else ""  # from an id on
        form = tool_format.arguments
        after = tool_format.after_arguments
        self._arguments = None if form is None else ArgumentRules(form, after, self.terms, limits)

    @property
    def shared(self) -> list[str]:
        """The rules that several tools need, of all so far."""
        ids = [f"{_rule_of(one)}: /{IDS[one]}/" for one in sorted(self.format.ids)]
        return [*ids, *(self._arguments.shared if self._arguments is not None else ())]

    def terms(self, text: str) -> str:
        """The terms of a text, in which special tokens stand as such; "" for an empty text."""
        known = self._known.get(text)  # most of those between arguments come again
        if known is None:
            known = self._known[text] = " ".join(
                f"<[{self.ids[part]}]>" if part in self.ids else literal(part)
                for part in self._parts(text)
            )
        return known

    def _with_id(self, text: str) -> str:
        """The terms of a text that may have one of IDS in it."""
        head, tail = around_id(text)
        ids = [_rule_of(one) for one in IDS if one in text]
        parts = [self.terms(head), *ids, self.terms(tail)]
        return " ".join(part for part in parts if part)

    def _parts(self, text: str) -> list[str]:
        """A text in parts, each special token a part of its own."""
        return parts_of(text, self.ids)

    def tool(self, tool: Tool, limits: GuideConfig, starts: CallStarts | None) -> _WrittenTool:
        """A tool's name and its arguments. Raises InvalidGuide, which names the tool."""
        name = self.terms(tool.name + self._behind_name)
        try:
            if self._arguments is None:
                behind = None if starts is None else starts.of_call(tool.name)
                term = schema_term(dict(tool.parameters), limits, behind)
                return _WrittenTool(name, _NO_SHAPE, self._lead + term)
            shape, term, lines = self._arguments.of(tool.parameters, tool.param)
            return _WrittenTool(name, shape, self._lead + term, lines)
        except InvalidGuide as error:
            error.param = tool.param
            raise

    def calls(self, is_parallel: bool, *, after: str = "") -> str:
        """The terms of all calls of a message. after: the part of their opening that is there
        already"""
        one = self.format
        opening = self._with_id(one.opening.removeprefix(after))
        return " ".join(part for part in (opening, "tool", *self._behind(is_parallel)) if part)

    def behind_arguments(self, is_parallel: bool) -> str:
        """The rest of a message behind a call's arguments."""
        return " ".join(part for part in self._behind(is_parallel) if part) or '""'

    def _behind(self, is_parallel: bool) -> tuple[str, str, str]:
        separator = self.format.separator
        repeats = is_parallel and separator is not None
        more = f"({self.terms(separator or '')} call)*" if repeats else ""
        return self._after_arguments, more, self.terms(self.format.end)

    def free_text(self, is_parallel: bool) -> list[str]:
        """The start rule, and others, of text up to the trigger, from where on there are calls; or
        text alone."""
        trigger = self.format.trigger
        calls = self.calls(is_parallel, after=trigger)
        if trigger in self.ids:  # which is in no text
            return [f"TEXT? (<[{self.ids[trigger]}]> {calls})?", _TEXT]
        mark = pattern_of(trigger)
        return [
            f"TEXT | lead {calls}",
            f"TEXT: /(?s:.*)/ & ~/(?s:.*){mark}(?s:.*)/",
            f"lead[lazy]: /(?s:.*){mark}/",
        ]

    def marked_text(self, is_parallel: bool) -> list[str]:
        """The same where marks say what is an answer and what leads to calls."""
        one, begin = self.format, self.terms(self.format.before_answer)
        calls = self.calls(is_parallel)
        lead, lead_rule = self._up_to(one.after_lead, "lead")
        text, text_rule = self._answer_text(lead, lead_rule)
        if one.begins_inside:
            return [f"{text} | {lead} {calls}", *{*lead_rule, *text_rule}]
        if one.before_lead == one.before_answer and one.after_lead not in self.ids:
            mark = pattern_of(one.after_lead)
            text, text_rule = "SAID", [f"SAID: /(?s:.*)/ & ~/(?s:.*){mark}(?s:.*)/"]
        leading = f"({self.terms(one.before_lead)} {lead})?" if one.has_lead else ""
        return [f"{begin} {text} | {leading} {calls}", *{*lead_rule, *text_rule}]

    def _answer_text(self, lead: str, lead_rule: list[str]) -> tuple[str, list[str]]:
        """The terms of an answer's text and the mark behind it, and the rules that they need. Near
        max_tokens that text may be cut off, so a mark that is no text may be missing."""
        one = self.format
        if any(part in self.ids for part in self._parts(one.after_answer)[:1]):
            return f"TEXT? ({self.terms(one.after_answer)})?", [_TEXT]
        if one.begins_inside:
            return lead + self.terms(one.after_answer.removeprefix(one.after_lead)), lead_rule
        return self._up_to(one.after_answer, "said")

    def _up_to(self, mark: str, rule: str) -> tuple[str, list[str]]:
        """The terms of a text and the mark behind it, and the rules that they need."""
        first, *rest = self._parts(mark) or [""]
        if not mark or first in self.ids:
            return f"TEXT? {self.terms(mark)}", [_TEXT]
        lead = f"{rule}[lazy]: /(?s:.*){pattern_of(first)}/"
        return f"{rule} {self.terms(''.join(rest))}", [lead]
