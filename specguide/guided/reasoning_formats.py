"""Owns how model families write their reasoning before they answer: the descriptions under
grammars/reasoning, and the choice of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from specguide.errors import InvalidParams
from specguide.guided.written_forms import WrittenForm, read_forms

NO_FORMAT = "none"


@dataclass(frozen=True)
class ReasoningFormat(WrittenForm):
    """How a model writes its reasoning. An output is begin · reasoning · end · resumes, followed by
    tool calls or by answer · the answer itself · after_answer.

    begins_itself: the model writes `begin`, unless the prompt already has the section or its end;
                   else the model reasons only where the prompt begins the section
    switch:        variable of the chat template that turns reasoning on or off; None: it has none
    effort:        variable of the chat template that says how much to reason; None: it has none
    budget:        variable of the chat template that says for how many tokens to reason, 0 for no
                   reasoning; "": it has none
    without:       text in front of an answer without reasoning, where there is no switch
    efforts:       maps efforts that the template does not know to words that it knows
    instead:       what the model may write in place of the section; "": it may answer at once;
                   None: it always has the section
    cut_by:        special token with which a call may begin inside the section, which it ends; "":
                   there is none
    asked:         special token that a prompt has where the model is to begin the section; "": the
                   model begins it after any prompt
    """

    begin: str
    end: str
    begins_itself: bool
    switch: str | None
    effort: str | None
    without: str
    budget: str = ""
    resumes: str = ""
    answer: str = ""
    after_answer: str = ""
    efforts: Mapping[str, str] = field(default_factory=dict)
    instead: str | None = None
    cut_by: str = ""
    asked: str = ""

    def is_begun(self, prompt: str) -> bool:
        """Whether the prompt's last section was begun and not ended."""
        return prompt.rfind(self.begin) > prompt.rfind(self.end)

    def left_of_without(self, prompt: str) -> str:
        """The part of `without` that the prompt's end lacks, where the prompt has begun it; all of
        it where the prompt has begun the section in another way."""
        return self.without.removeprefix(prompt[prompt.rfind(self.begin) :])

    def is_over(self, prompt: str) -> bool:
        """Whether the prompt ends with the section's end."""
        return prompt.rstrip().endswith(self.end.strip())


@cache
def reasoning_formats() -> dict[str, ReasoningFormat]:
    """All known formats, by name."""
    return read_forms("reasoning", ReasoningFormat)


def choose_reasoning_format(name: str | None, template: str | None) -> ReasoningFormat | None:
    """The format of this name; without a name, the format whose marks the chat template has. None
    where there is none, or "none" is named. Raises InvalidParams for an unknown name."""
    if name == NO_FORMAT:
        return None
    if name is None:
        return next(
            (
                reasoning_format
                for reasoning_format in reasoning_formats().values()
                if reasoning_format.fits(template or "")
            ),
            None,
        )
    if name not in reasoning_formats():
        known = ", ".join((NO_FORMAT, *reasoning_formats()))
        raise InvalidParams(
            f"reasoning format {name!r} is unknown; known: {known}", param="reasoning_format"
        )
    return reasoning_formats()[name]
