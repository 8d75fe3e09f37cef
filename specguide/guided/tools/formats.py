"""Owns how model families write tool calls: the descriptions under grammars/tool_calls, and the
choice of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from specguide.errors import InvalidParams
from specguide.guided.regex.first import first_of
from specguide.guided.regex.parse import parse
from specguide.guided.tools.arguments_form import ArgumentsForm
from specguide.guided.written_forms import WrittenForm, read_forms

IDS = {
    "{index}": "[0-9]{1,4}",
    "{number}": "[0-9]{1,4}",
    "{id}": "[0-9A-Za-z]{9}",
    "{lower_id}": "[0-9a-z]{10}",
}
"""The ids of calls, each with its regular expression: the call's number from 0 or from 1, nine
letters and digits, ten digits and lower-case letters."""


def around_id(text: str) -> tuple[str, str]:
    """The texts in front of one of IDS and behind it; the whole text and "" where there is none."""
    mark = next((one for one in IDS if one in text), None)
    head, _, tail = text.partition(mark) if mark else (text, "", "")
    return head, tail


def behind_id(text: str) -> str:
    """The text behind one of IDS; the whole text where there is none."""
    head, tail = around_id(text)
    return head if head == text else tail


def id_beginnings(text: str) -> bytes:
    """The bytes with which the one of IDS in a text may begin."""
    pattern = next(IDS[one] for one in IDS if one in text)
    ranges = first_of(parse(pattern)).chars
    return bytes(code for low, high in ranges for code in range(low, high + 1))


def with_id(text: str, index: int) -> str:
    """A text with a call's id in place of one of IDS. index: the call's number, from 0"""
    ids = {"{index}": str(index), "{number}": str(index + 1), "{id}": f"{index:09}"}
    ids["{lower_id}"] = f"{index:010}"
    for mark, one in ids.items():
        text = text.replace(mark, one)
    return text


@dataclass(frozen=True)
class ToolFormat(WrittenForm):
    """How a model writes tool calls. A message's calls are

        begin · call · (separator · call)* · end

    and a call is before_name · name · before_arguments · arguments · after_arguments, where the
    arguments are a JSON object, or as `arguments` says, and all else is text. A call's id is one of
    IDS in before_name, before_arguments or after_arguments.

    An answer without calls is between before_answer and after_answer; text in front of calls is
    between before_lead and after_lead. With only after_lead, a message begins inside its text, and
    after_answer begins with after_lead. Where answers have marks, but before_lead and after_lead
    are empty, no text comes in front of calls.

    separator: None: a message has one call
    trigger:   how calls begin: text that contains it is no longer text
    told_id:   a call's id as the chat template needs it, with one of IDS and "{name}" in it; "" for
               any id that the caller gave it
    tools_variable: a further variable by which the chat template takes functions, beside `tools`
    tells_text:     there it takes them as JSON text, also where there are no tools
    day_variable:   the variable by which it takes the date
    """

    begin: str
    before_name: str
    before_arguments: str
    after_arguments: str
    separator: str | None
    end: str
    trigger: str
    before_answer: str = ""
    after_answer: str = ""
    before_lead: str = ""
    after_lead: str = ""
    told_id: str = ""
    tools_variable: str = ""
    tells_text: bool = False
    day_variable: str = ""
    arguments: ArgumentsForm | None = None

    @property
    def opening(self) -> str:
        """All text in front of the first call's name."""
        return self.begin + self.before_name

    @property
    def ids(self) -> set[str]:
        """The IDS that occur in calls."""
        around = self.before_name + self.before_arguments + self.after_arguments
        return {one for one in IDS if one in around}

    @property
    def is_marked(self) -> bool:
        """Whether marks tell answers from text in front of calls."""
        return bool(self.before_answer or self.after_lead)

    @property
    def begins_inside(self) -> bool:
        """Whether a message begins inside its text, which a mark ends."""
        return bool(self.after_lead) and not self.before_lead

    @property
    def has_lead(self) -> bool:
        """Whether text may come in front of calls."""
        return not self.is_marked or bool(self.after_lead)

    def answers_behind(self, prompt: str) -> bool:
        """Whether a prompt ends where either an answer's mark or a tool's name comes next."""
        is_lead = self.before_lead == self.before_answer and bool(self.after_lead)
        return is_lead and prompt.endswith(self.after_lead)

    @property
    def behind_name(self) -> tuple[str, ...]:
        """The texts one of which follows a call's name."""
        text, _ = around_id(self.before_arguments)
        if text or self.arguments is None:
            return (text,)
        return self.arguments.before_name, self.after_arguments

    def call(self, name: str, arguments: str, index: int = 0) -> str:
        """The text of one call. arguments: JSON; index: the call's number in its message, from 0"""
        written = arguments if self.arguments is None else self.arguments.written(arguments)
        before, after = self.before_arguments, self.after_arguments
        head = with_id(self.before_name, index) + name
        return head + with_id(before, index) + written + with_id(after, index)

    def id_of(self, name: str, index: int) -> str:
        """The told_id of a call. index: number of calls before it in the conversation"""
        return with_id(self.told_id, index).replace("{name}", name)

    def message(self, calls: list[tuple[str, str]], lead: str = "") -> str:
        """The text of calls, each given by a name and JSON arguments, with the text `lead` in front
        if the format allows it."""
        written = (self.separator or "").join(
            self.call(*call, index) for index, call in enumerate(calls)
        )
        has_lead = self.has_lead and (lead or self.begins_inside)
        leading = self.before_lead + lead + self.after_lead if has_lead else ""
        return leading + self.begin + written + self.end

    def answer(self, text: str) -> str:
        """The text of a message without calls."""
        return self.before_answer + text + self.after_answer


@cache
def tool_formats() -> dict[str, ToolFormat]:
    """All known formats, by name."""
    return {name: _with_form(one) for name, one in read_forms("tool_calls", ToolFormat).items()}


def _with_form(one: ToolFormat) -> ToolFormat:
    """The format, with an ArgumentsForm made from its description."""
    described: Any = one.arguments
    return one if described is None else replace(one, arguments=ArgumentsForm(**described))


def choose_tool_format(name: str | None, template: str | None) -> ToolFormat:
    """The format of this name; without a name, the format whose marks the chat template has. Raises
    InvalidParams where there is none."""
    known = ", ".join(tool_formats())
    if name is not None:
        if name not in tool_formats():
            raise InvalidParams(
                f"tool format {name!r} is unknown; known: {known}", param="tool_format"
            )
        return tool_formats()[name]
    recognized = next(
        (
            tool_format
            for tool_format in tool_formats().values()
            if tool_format.fits(template or "")
        ),
        None,
    )
    if recognized is None:
        raise InvalidParams(
            "the model's chat template does not say how tool calls are written; name one of the "
            f"tool formats {known}",
            param="tool_format",
        )
    return recognized
