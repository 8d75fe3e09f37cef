"""Owns Task: what is to be generated, whichever API asked for it. Parsers make it, and `run`
takes it."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.errors import InvalidGuide, PromptTooLong, SpecguideError, UserError
from specguide.guided.reasoning_formats import ReasoningFormat
from specguide.params import SamplingParams
from specguide.server.tasks.events import End, Event, Tokens


@dataclass(frozen=True)
class ExpectedReasoning:
    """How a sample may begin.

    is_begun: the prompt has begun the section
    is_told:  the client wants to read it
    answer:   what stands between the section's end and the answer, and is no part of it
    is_free:  the model may leave the section out, if it ever does
    has_calls: calls may follow
    """

    format: ReasoningFormat
    is_begun: bool
    is_told: bool = True
    answer: str = ""
    is_free: bool = False
    has_calls: bool = False

    @property
    def end(self) -> str:
        """Everything behind the section."""
        return self.format.end + self.format.resumes + self.answer

    @property
    def instead(self) -> str | None:
        """Everything that may stand in the section's place; None: the section must come."""
        is_left = self.is_free and not self.is_begun and self.format.instead is not None
        return (self.format.instead or "") + self.answer if is_left else None

    @property
    def cut_by(self) -> str:
        """What begins a call inside of the section, and ends that; "": nothing does."""
        return self.format.cut_by if self.has_calls else ""


@dataclass(frozen=True)
class Task:
    """Prompts that are answered alike.

    model:         the name by which the model was asked for
    prompts:       token ids of each; of each there are `params.n` samples
    reasoning:     how reasoning is read; None where there is none to read
    schema_params: the request's fields that the JSON Schemas of its guide are from, where that is
                   made of several
    priority:      as RequestSpec has it
    returns_spans: what their tokens are of is told
    echoed:        texts of the prompts, where they are told again
    prompt_text:   of a conversation, where it is told
    prompt_param:  the request's field that the prompts are from
    after_answer:  the mark behind an answer, which is no part of it; "": none, or the guide has it
    limit_param:   the one that `params.max_tokens` is from
    custom_tools:  names of the tools that are called with a text
    """

    model: str
    prompts: tuple[list[int], ...]
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
        """The request's field that is wrong where its prompt, its limit or its guide is; None where
        the error itself says which."""
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
        """Samples of all prompts together; those of a prompt follow each other."""
        return len(self.prompts) * self.params.n


class Usage:
    """Tokens of a task, as far as it has come.

    num_cached:    of the prompts', those whose keys were there already
    counts_output: False: the prompts are all that is told
    num_reasoning: of the output's, those before the end of reasoning
    """

    def __init__(self, task: Task, *, counts_output: bool = True) -> None:
        self._counts_output = counts_output
        self.num_prompt = sum(map(len, task.prompts))
        self.num_output = self.num_cached = self.num_reasoning = 0
        self._num_samples = task.params.n

    def take(self, event: Event) -> None:
        """Count what an event says."""
        if isinstance(event, Tokens):
            if self._counts_output:
                self.num_output += event.count
                self.num_reasoning += event.num_reasoning
        elif isinstance(event, End) and event.sample % self._num_samples == 0:
            self.num_cached += event.metrics.num_cached
