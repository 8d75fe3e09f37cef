"""Owns how model families write what they think before they answer: descriptions under
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
    """How a model writes its reasoning: begin · reasoning · end · resumes, and then what it calls,
    or answer, the answer itself and after_answer.

    begins_itself: the model writes `begin`, unless the prompt has the section or its end; else it
                   reasons where the prompt begins it
    switch:        variable of the chat template that says whether to reason; None: it has none
    effort:        variable of the chat template that says how much to reason; None: it has none
    budget:        variable of the chat template that says how many tokens to reason for, 0 for no
                   reasoning; "": it has none
    without:       text in front of an answer without reasoning, where there is no switch
    efforts:       words of the template for efforts that it has no such word for
    instead:       what the model may write in the section's place, by itself; "": it may answer at
                   once; None: it always has the section
    cut_by:        special token with which a call may begin inside of the section, which it ends;
                   "": none does
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
        """Whether a prompt, by its last part, has begun the section and not ended it."""
        return prompt.rfind(self.begin) > prompt.rfind(self.end)

    def left_of_without(self, prompt: str) -> str:
        """What a prompt lacks of `without`, where it has begun that, by its last part; all of it
        where it has begun the section otherwise."""
        return self.without.removeprefix(prompt[prompt.rfind(self.begin) :])

    def is_over(self, prompt: str) -> bool:
        """Whether a prompt ends with the section's end."""
        return prompt.rstrip().endswith(self.end.strip())


@cache
def reasoning_formats() -> dict[str, ReasoningFormat]:
    """All formats that are known, by name."""
    return read_forms("reasoning", ReasoningFormat)


def choose_reasoning_format(name: str | None, template: str | None) -> ReasoningFormat | None:
    """The format of this name, else the one that the chat template speaks of; None where there is
    none, or "none" is named. Raises InvalidParams for an unknown name."""
    if name == NO_FORMAT:
        return None
    if name is None:
        return next((one for one in reasoning_formats().values() if one.fits(template or "")), None)
    if name not in reasoning_formats():
        known = ", ".join((NO_FORMAT, *reasoning_formats()))
        raise InvalidParams(
            f"reasoning format {name!r} is unknown; known: {known}", param="reasoning_format"
        )
    return reasoning_formats()[name]
