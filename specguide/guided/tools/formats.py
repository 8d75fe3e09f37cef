"""Owns how model families write tool calls: descriptions under grammars/tool_calls, and
the choice of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from specguide.errors import InvalidParams
from specguide.guided.written_forms import WrittenForm, read_forms


@dataclass(frozen=True)
class ToolFormat(WrittenForm):
    """How a model writes tool calls. A message's calls are

        begin · call · (separator · call)* · end

    and a call is before_name · name · before_arguments · arguments · after_arguments, where the
    arguments are a JSON object and all else is text.

    An answer that is no calls stands behind before_answer; text in front of calls stands between
    before_lead and after_lead.

    separator: None: a message has one call
    trigger:   how calls begin: text that has it is no text any more
    """

    begin: str
    before_name: str
    before_arguments: str
    after_arguments: str
    separator: str | None
    end: str
    trigger: str
    before_answer: str = ""
    before_lead: str = ""
    after_lead: str = ""

    @property
    def opening(self) -> str:
        """All before the first call's name."""
        return self.begin + self.before_name

    def call(self, name: str, arguments: str) -> str:
        """One call's text."""
        return self.before_name + name + self.before_arguments + arguments + self.after_arguments

    def message(self, calls: list[tuple[str, str]], lead: str = "") -> str:
        """The text of calls, each a name and its arguments as JSON, behind a leading text."""
        written = (self.separator or "").join(self.call(*call) for call in calls)
        leading = self.before_lead + lead + self.after_lead if lead else ""
        return leading + self.begin + written + self.end

    def answer(self, text: str) -> str:
        """The text of a message without calls."""
        return self.before_answer + text


@cache
def tool_formats() -> dict[str, ToolFormat]:
    """All that are known, by name."""
    return read_forms("tool_calls", ToolFormat)


def choose_tool_format(name: str | None, template: str | None) -> ToolFormat:
    """The one named, else the one that the chat template speaks of. Raises InvalidParams where
    there is none."""
    known = ", ".join(tool_formats())
    if name is not None:
        if name not in tool_formats():
            raise InvalidParams(
                f"tool format {name!r} is unknown; known: {known}", param="tool_format"
            )
        return tool_formats()[name]
    found = next((one for one in tool_formats().values() if one.fits(template or "")), None)
    if found is None:
        raise InvalidParams(
            "the model's chat template does not say how tool calls are written; name one of the "
            "tool "
            f"formats {known}",
            param="tool_format",
        )
    return found
