"""Owns the Lark for parts of a message that may call tools: texts, names, arguments, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guided.lark.literal import literal, pattern_of
from specguide.guided.lark.schema import schema_term
from specguide.guided.tools.arguments import ArgumentRules
from specguide.guided.tools.call_starts import CallStarts, parts_of
from specguide.guided.tools.formats import IDS, ToolFormat, around_id
from specguide.guided.tools.layout import SpecialToken
from specguide.guided.tools.shapes import ObjectShape

_NO_SHAPE = ObjectShape()
_TEXT = r"TEXT: /(?s:.+)/"


class WrittenTool(NamedTuple):
    """A tool as Lark: the terms of its name and its arguments, and the rules that only it has."""

    name: str
    shape: ObjectShape
    arguments: str
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Tool:
    """A function that a model may call.

    parameters: the JSON schema of its arguments, which must be an object's
    param:      the request's field with the schema
    """

    name: str
    parameters: Mapping[str, Any]
    param: str = "tools"


def _rule_of(one: str) -> str:
    """The name of the rule for one of IDS."""
    return one.strip("{}").upper()


class MessageRules:
    """Writes parts of a format as Lark."""

    def __init__(
        self, tool_format: ToolFormat, special_token: SpecialToken, limits: GuideConfig
    ) -> None:
        self.format = tool_format
        self._known: dict[str, str] = {}
        ids = {text: special_token(text) for text in tool_format.special_tokens}
        self.ids = {text: token for text, token in ids.items() if token is not None}
        self.key = (repr(tool_format), *self.ids.items())
        """The values on which these rules depend."""
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
        """The rules that several tools use, of all tools so far."""
        ids = [f"{_rule_of(name)}: /{IDS[name]}/" for name in sorted(self.format.ids)]
        return [*ids, *(self._arguments.shared if self._arguments is not None else ())]

    def terms(self, text: str) -> str:
        """The terms of a text, with special tokens as tokens; "" for an empty text."""
        known = self._known.get(text)  # most texts between arguments are used again
        if known is None:
            parts = [text] if text and not self.ids else parts_of(text, self.ids)
            known = self._known[text] = " ".join(
                [f"<[{self.ids[part]}]>" if part in self.ids else literal(part) for part in parts]
            )
        return known

    def _with_id(self, text: str) -> str:
        """The terms of a text that may contain one of IDS."""
        head, tail = around_id(text)
        ids = [_rule_of(one) for one in IDS if one in text]
        return " ".join(filter(None, (self.terms(head), *ids, self.terms(tail))))

    def tool(self, tool: Tool, limits: GuideConfig, starts: CallStarts | None) -> WrittenTool:
        """A tool's name and arguments. Raises InvalidGuide, which names the tool."""
        name = self.terms(tool.name + self._behind_name)
        try:
            if self._arguments is None:
                behind = None if starts is None else starts.of_call(tool.name)
                term = schema_term(dict(tool.parameters), limits, behind)
                return WrittenTool(name, _NO_SHAPE, self._lead + term)
            shape, term, lines = self._arguments.of(tool.parameters)
            return WrittenTool(name, shape, self._lead + term, lines)
        except InvalidGuide as error:
            error.param = tool.param
            raise

    def calls(self, is_parallel: bool, *, after: str = "") -> str:
        """The terms of all calls of a message. after: the part of their opening that is already
        there"""
        tool_format = self.format
        opening = self._with_id(tool_format.opening.removeprefix(after))
        return " ".join(filter(None, (opening, "tool", *self._behind(is_parallel))))

    def behind_arguments(self, is_parallel: bool) -> str:
        """The rest of a message behind a call's arguments."""
        return " ".join(filter(None, self._behind(is_parallel))) or '""'

    def _behind(self, is_parallel: bool) -> tuple[str, str, str]:
        separator = self.format.separator
        repeats = is_parallel and separator is not None
        more = f"({self.terms(separator or '')} call)*" if repeats else ""
        return self._after_arguments, more, self.terms(self.format.end)

    def free_text(self, is_parallel: bool) -> list[str]:
        """The start rule, and others, of text up to the trigger with calls from there on, or of
        text alone."""
        trigger = self.format.trigger
        calls = self.calls(is_parallel, after=trigger)
        if trigger in self.ids:  # no text contains it
            return [f"TEXT? (<[{self.ids[trigger]}]> {calls})?", _TEXT]
        mark = pattern_of(trigger)
        return [
            f"TEXT | lead {calls}",
            f"TEXT: /(?s:.*)/ & ~/(?s:.*){mark}(?s:.*)/",
            f"lead[lazy]: /(?s:.*){mark}/",
        ]

    def marked_text(self, is_parallel: bool) -> list[str]:
        """See `free_text`, for formats in which marks tell answers from text in front of calls."""
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
        max_tokens the text may be cut off, so a mark that is a special token may be missing."""
        tool_format = self.format
        if any(part in self.ids for part in parts_of(tool_format.after_answer, self.ids)[:1]):
            return f"TEXT? ({self.terms(tool_format.after_answer)})?", [_TEXT]
        if tool_format.begins_inside:
            return lead + self.terms(
                tool_format.after_answer.removeprefix(tool_format.after_lead)
            ), lead_rule
        return self._up_to(tool_format.after_answer, "said")

    def _up_to(self, mark: str, rule: str) -> tuple[str, list[str]]:
        """The terms of a text and the mark behind it, and the rules that they need."""
        first, *rest = parts_of(mark, self.ids) or [""]
        if not mark or first in self.ids:
            return f"TEXT? {self.terms(mark)}", [_TEXT]
        lead = f"{rule}[lazy]: /(?s:.*){pattern_of(first)}/"
        return f"{rule} {self.terms(''.join(rest))}", [lead]
