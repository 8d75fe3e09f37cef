"""Owns the plan of a request's reasoning: the variables of the chat template, the expected form of
the output, and the guide after the reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidParams
from specguide.guide import Guide, Reasoning
from specguide.guided.reasoning_formats import ReasoningFormat
from specguide.server.bodies.shared_fields import TurnFields
from specguide.server.tasks.task import ExpectedReasoning
from specguide.tokenizer import Tokenizer

_TAIL = 64
"""Tokens at a prompt's end that are searched for the beginning of the section, or for
the text that replaces it."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_ANYTHING = Guide(structural_tag={"type": "structural_tag", "format": {"type": "any_text"}})
"""A tag, since text that `max_tokens` cuts off within a regex is taken for whole."""


@dataclass(frozen=True)
class ReasoningPlan:
    """How one request reasons.

    format:     None for a model that does not reason
    effort:     OpenAI's; "none" switches reasoning off; None: the model's default
    max_tokens: of the section; None: no bound
    is_shown:   the client gets the reasoning
    has_tools:  calls may follow: the tools' grammar and reader then handle the answer's mark
    is_begun:   the answer has begun, so that there is no more reasoning
    """

    format: ReasoningFormat | None
    effort: str | None = None
    max_tokens: int | None = None
    is_shown: bool = True
    has_tools: bool = False
    is_begun: bool = False

    @classmethod
    def of(cls, body: TurnFields, one: ReasoningFormat | None, **facts: bool) -> ReasoningPlan:
        """The plan of a request. Raises InvalidParams for an unknown effort, where the model
        reasons.

        facts: has_tools and is_begun
        """
        effort = body.effort()
        if one is not None and effort is not None and effort not in EFFORTS:
            raise InvalidParams(
                f"the reasoning effort must be one of {', '.join(EFFORTS)}, found {effort!r}",
                param=body.effort_field(),
            )
        return cls(one, effort, body.reasoning_bound(), body.include_reasoning, **facts)

    @property
    def _answer(self) -> str:
        """The mark before an answer, unless the tools' grammar has it."""
        return "" if self.format is None or self.has_tools else self.format.answer

    @property
    def after_answer(self) -> str:
        """The mark after an answer, unless the tools' grammar has it."""
        return "" if self.format is None or self.has_tools else self.format.after_answer

    def variables(self) -> dict[str, Any]:
        """The variables for the chat template."""
        one = self.format
        if one is None or self.effort is None:
            return {}
        variables: dict[str, Any] = {one.switch: self.effort != "none"} if one.switch else {}
        if one.budget and self.effort == "none":
            variables[one.budget] = 0
        effort = one.efforts.get(self.effort, self.effort)
        return variables | ({one.effort: effort} if one.effort else {})

    def finished(self, prompt: list[int], tokenizer: Tokenizer) -> list[int]:
        """The prompt with the text that belongs before the answer. After a section that is over,
        this is the answer's mark. Without reasoning, it is the rest of a section that the prompt
        has begun, or the text that replaces a section, or an empty section where the template has
        no switch against one."""
        one = self.format
        is_marked = bool(self._answer)
        if one is None or self.is_begun or not (is_marked or self.effort == "none"):
            return prompt
        tail = _tail(prompt, tokenizer)
        if is_marked and one.is_over(tail):
            without = self._answer
        elif self.effort != "none":
            return prompt
        elif one.is_begun(tail):
            without = one.left_of_without(tail)
        elif one.instead is not None:
            without = "" if one.is_over(tail) else one.instead + self._answer
        elif one.begins_itself and one.without and not one.switch and not one.is_over(tail):
            without = one.without + one.resumes + self._answer
        else:
            return prompt
        return prompt + tokenizer.encode(without, add_special_tokens=False)

    def expected(self, prompt: Sequence[int], tokenizer: Tokenizer) -> ExpectedReasoning | None:
        """The beginning of the output; None where there is no section."""
        one = self.format
        if one is None or self.is_begun:
            return None
        tail = _tail(prompt, tokenizer)
        facts = self.is_shown, self._answer, self.effort is None, self.has_tools
        if one.is_begun(tail):
            return ExpectedReasoning(one, True, *facts)
        is_asked = not one.asked or tokenizer.token_id(one.asked) in prompt
        is_left = one.begins_itself and self.effort != "none" and not one.is_over(tail) and is_asked
        return ExpectedReasoning(one, False, *facts) if is_left else None

    def guided(self, guide: Guide | None, expected: ExpectedReasoning | None) -> dict[str, Any]:
        """Values of SamplingParams: the guide begins after the section."""
        if expected is None or (guide is None and self.max_tokens is None):
            return {"guide": guide}
        one = expected.format
        begin = None if expected.is_begun else one.begin
        return {
            "guide": guide or _ANYTHING,
            "reasoning": Reasoning(
                expected.end, begin, self.max_tokens, expected.instead, expected.cut_by or None
            ),
        }


def _tail(prompt: Sequence[int], tokenizer: Tokenizer) -> str:
    return tokenizer.decode(prompt[-_TAIL:], skip_special_tokens=False)
