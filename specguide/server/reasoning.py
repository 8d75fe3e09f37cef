"""Owns whether a model thinks before it answers a request: what the chat template is told, what is
expected of the output, and what the guide lets through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidParams
from specguide.guide import Guide, Reasoning
from specguide.guided.reasoning_formats import ReasoningFormat
from specguide.server.requests import TurnFields
from specguide.server.task import ExpectedReasoning
from specguide.tokenizer import Tokenizer

_TAIL = 64
"""Tokens at a prompt's end in which it may begin the section, or leave it out."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_ANYTHING = Guide(regex=r"[\s\S]*")


@dataclass(frozen=True)
class ReasoningPlan:
    """Of one request.

    format:     None for a model that does not reason
    effort:     OpenAI's; "none" switches reasoning off; None: as the model does by itself
    max_tokens: of the section; None: no bound
    is_told:    the client wants to read it
    """

    format: ReasoningFormat | None
    effort: str | None = None
    max_tokens: int | None = None
    is_told: bool = True

    @classmethod
    def of(cls, body: TurnFields, one: ReasoningFormat | None) -> ReasoningPlan:
        """Raises InvalidParams for an effort that there is not, where the model reasons."""
        effort, most = body.effort(), body.max_reasoning_tokens
        if one is not None and effort is not None and effort not in EFFORTS:
            raise InvalidParams(
                f"the effort must be one of {', '.join(EFFORTS)}, found {effort!r}",
                param="reasoning_effort",
            )
        most = body.thinking_token_budget if most is None else most
        return cls(one, effort, most, body.include_reasoning)

    def variables(self) -> dict[str, Any]:
        """What the chat template is told."""
        one = self.format
        if one is None or self.effort is None:
            return {}
        told: dict[str, Any] = {one.switch: self.effort != "none"} if one.switch else {}
        return told | ({one.effort: self.effort} if one.effort else {})

    def finished(self, prompt: list[int], tokenizer: Tokenizer) -> list[int]:
        """The prompt, with an empty section where it has begun one that nobody wants."""
        one = self.format
        if one is None or self.effort != "none" or not one.is_begun(_tail(prompt, tokenizer)):
            return prompt
        return prompt + tokenizer.encode(one.without, add_special_tokens=False)

    def expected(self, prompt: Sequence[int], tokenizer: Tokenizer) -> ExpectedReasoning | None:
        """How the output begins; None where there is no section."""
        one = self.format
        if one is None:
            return None
        tail = _tail(prompt, tokenizer)
        if one.is_begun(tail):
            return ExpectedReasoning(one, True, self.is_told)
        is_left = one.begins_itself and self.effort != "none" and not one.is_over(tail)
        return ExpectedReasoning(one, False, self.is_told) if is_left else None

    def guided(self, guide: Guide | None, expected: ExpectedReasoning | None) -> dict[str, Any]:
        """Values of SamplingParams: the guide begins behind the section."""
        if expected is None or (guide is None and self.max_tokens is None):
            return {"guide": guide}
        one = expected.format
        begin = None if expected.is_begun else one.begin
        return {
            "guide": guide or _ANYTHING,
            "reasoning": Reasoning(one.end, begin, self.max_tokens),
        }


def _tail(prompt: Sequence[int], tokenizer: Tokenizer) -> str:
    return tokenizer.decode(prompt[-_TAIL:], skip_special_tokens=False)
