"""Owns Task: the work that a request asks for, independent of its API. Parsers make it, and `run`
runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specguide.errors import InvalidGuide, PromptTooLong, SpecguideError, UserError
from specguide.guided.reasoning_formats import ReasoningFormat
from specguide.params import SamplingParams
from specguide.server.tasks.events import End, Event, Tokens


@dataclass(frozen=True)
class ExpectedReasoning:
    """How a sample may begin.

    is_begun: the prompt has begun the section
    is_shown: the client gets the reasoning
    answer:   the mark between the section's end and the answer, which belongs to neither
    is_free:  the model may leave the section out, if its format allows that
    has_calls: calls may follow
    """

    format: ReasoningFormat
    is_begun: bool
    is_shown: bool = True
    answer: str = ""
    is_free: bool = False
    has_calls: bool = False

    @property
    def end(self) -> str:
        """The text from the section's end to the answer."""
        return self.format.end + self.format.resumes + self.answer

    @property
    def instead(self) -> str | None:
        """The text that may replace the section; None: the section must come."""
        is_left = self.is_free and not self.is_begun and self.format.instead is not None
        return (self.format.instead or "") + self.answer if is_left else None

    @property
    def cut_by(self) -> str:
        """The mark that begins a call inside the section, and so ends the section; "": none
        does."""
        return self.format.cut_by if self.has_calls else ""


@dataclass(frozen=True)
class Task:
    """Prompts that are answered with the same parameters.

    model:         the model's name in answers
    prompts:       token ids of each; each has `params.n` samples
    reasoning:     how reasoning is read; None where there is none to read
    schema_params: the request's fields with the JSON Schemas of the guide, where it has several
    priority:      see RequestSpec
    returns_spans: the answer has the spans of its tokens
    echoed:        texts of the prompts, where the answer repeats them
    prompt_text:   text of a conversation's prompt, where the answer has it
    prompt_param:  the request's field with the prompts
    after_answer:  the mark after an answer, which does not belong to it; "": none, or the guide has
                   it
    limit_param:   the request's field with `params.max_tokens`
    custom_tools:  names of the tools that are called with a text
    """

    model: str
    prompts: tuple[Sequence[int], ...]
    params: SamplingParams
    reasoning: ExpectedReasoning | None = None
    schema_params: tuple[str | None, ...] = ()
    priority: int = 0
    returns_spans: bool = False
    echoed: tuple[str, ...] = ()
    prompt_text: str | None = None
    prompt_param: str = "prompt"
    after_answer: str = ""
    limit_param: str = "max_tokens"
    custom_tools: frozenset[str] = frozenset()

    def param_of(self, error: SpecguideError) -> str | None:
        """The request's field whose prompt, limit or guide caused the error; None where the error
        names the field itself."""
        if isinstance(error, PromptTooLong):
            return self.prompt_param
        if isinstance(error, UserError) and error.param == "max_tokens":
            return self.limit_param
        if not isinstance(error, InvalidGuide) or self.params.guide is None:
            return None
        if error.part is not None and self.schema_params:
            return self.schema_params[error.part]
        return self.params.guide.param

    @property
    def num_samples(self) -> int:
        """Number of samples of all prompts; those of a prompt follow each other."""
        return len(self.prompts) * self.params.n


class Usage:
    """The numbers of a task's tokens so far.

    num_cached:    prompt tokens whose keys were in the cache
    counts_output: False: only prompt tokens are counted
    num_reasoning: output tokens before the end of reasoning
    """

    def __init__(self, task: Task, *, counts_output: bool = True) -> None:
        self._counts_output = counts_output
        self.num_prompt = sum(map(len, task.prompts))
        self.num_output = self.num_cached = self.num_reasoning = 0
        self._num_samples = task.params.n

    def take(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, Tokens):
            if self._counts_output:
                self.num_output += event.count
                self.num_reasoning += event.num_reasoning
        elif isinstance(event, End) and event.sample % self._num_samples == 0:
            self.num_cached += event.metrics.num_cached
