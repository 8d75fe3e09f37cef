"""Owns the forms of a request: RequestSpec is what was asked, Request is the handle while it runs,
RequestOutput is what the caller gets."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypedDict

from specguide.errors import SpecguideError
from specguide.images import PromptIds, PromptImage
from specguide.inputs.field_values import converted
from specguide.inputs.integers import as_int
from specguide.other_engines import OTHER_OUTPUT_ATTRIBUTES, missing
from specguide.params import SamplingParams
from specguide.request_records import (
    Iteration,
    Logprob,
    OutputSpan,
    RequestMetrics,
    own_logprobs,
)

FinishReason = Literal["stop", "length", "error", "abort"]

EXTERNAL_ID: ContextVar[str] = ContextVar("EXTERNAL_ID", default="")
"""The name that a request has outside the engine, for logs. A server sets it for each HTTP request;
all engine requests that are made in that context carry it."""


class RequestDetails(TypedDict, total=False):
    """Optional facts of a request beside its prompt and parameters.

    priority:    requests of higher priority run first: each step of it is worth a head start, see
                 scheduler.sequence
    sample:      index among the params.n samples of its prompt; each sample is a request of its own
    arrival_s:   when it came, by `time.perf_counter`; left out: now
    client:      who asks; clients that wait take turns, see scheduler.waiting
    external_id: see EXTERNAL_ID
    """

    priority: int
    sample: int
    arrival_s: float
    client: str
    external_id: str


@dataclass(frozen=True, eq=False)
class RequestSpec:
    """What was asked, immutable. RequestDetails describes the fields that are not named here.

    prompt_ids: its tokens; PromptIds where there are images among them
    seed:      seed of its random numbers, in [0, 2^63)
    first_scored: index of the first prompt token whose log-probability is returned, ≥ 1; earlier
                  tokens are not scored, so that their keys may come from the prefix cache
    score_temperature: the logits behind prompt log-probabilities are divided by it, > 0
    adapter:   its LoRA adapter, as SlotEntry numbers them; 0: none
    """

    request_id: int
    prompt_ids: Sequence[int]
    params: SamplingParams
    seed: int = 0
    priority: int = converted(0, as_int)
    sample: int = 0
    arrival_s: float = 0.0
    client: str = ""
    external_id: str = ""
    first_scored: int = 1
    score_temperature: float = 1.0
    adapter: int = 0

    @property
    def images(self) -> tuple[PromptImage, ...]:
        """The images in its prompt, in order."""
        return self.prompt_ids.images if isinstance(self.prompt_ids, PromptIds) else ()

    @property
    def has_guided_drafts(self) -> bool:
        """Whether its drafts are chosen among the tokens that its grammar allows, if the engine
        does so at all."""
        return self.params.speculation is None or self.params.speculation.guided_drafts is not False

    @property
    def has_prompt_logprobs(self) -> bool:
        """Whether its output has prompt_logprobs; of the samples of a prompt, only the first one
        has them."""
        return self.params.prompt_logprobs is not None and self.sample == 0


class TextOfTokens(Protocol):
    """The text of an output, built from its tokens; `scheduler.OutputText` describes the
    methods."""

    @property
    def text(self) -> str: ...

    def take(self) -> str: ...

    def add(self, token: int, may_stop: bool = True) -> str | int | None: ...

    def end(self) -> str | None: ...


class NoText:
    """A null `TextOfTokens`, for outputs that nobody reads as text."""

    text = ""

    def take(self) -> str:
        """Always ""."""
        return ""

    def add(self, token: int, may_stop: bool = True) -> None:
        """Completes no stop string."""

    def end(self) -> None:
        """Completes no stop string."""


class SpansOfTokens(Protocol):
    """The spans of an output, built from its tokens; `guided.reading.SpanReader` describes the
    methods."""

    def add(self, token_ids: Sequence[int], logprobs: Sequence[float] = ()) -> list[OutputSpan]: ...

    def finish(self) -> list[OutputSpan]: ...


@dataclass(eq=False)
class Request:
    """A request as its caller sees it, from `Engine.add` on.

    The scheduler's commit writes the output, how it ended and most metrics. The engine writes
    `compile_s` before that. The engine's observers write `logprobs`, `prompt_logprobs`,
    `iterations` and the counts of drafts, each after the scheduler has taken the tokens. A caller
    that streams the text calls `text.take`.

    text:            the text of its output
    finish_reason:   None while it is under way
    stop_reason:     as in RequestOutput
    logprobs:        log-probabilities of each output token, if asked for
    prompt_logprobs: log-probabilities of each prompt token so far, if asked for; None for the first
    iterations:      the iterations that gave it tokens or held it, if asked for
    span_reader:     reads the spans of its output; None where spans are not asked for, and until
                     the request is admitted
    """

    spec: RequestSpec
    text: TextOfTokens = field(default_factory=NoText)
    output_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: SpecguideError | None = None
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    prompt_logprobs: list[dict[int, Logprob] | None] = field(default_factory=lambda: [None])
    iterations: list[Iteration] = field(default_factory=list)
    span_reader: SpansOfTokens | None = None

    @property
    def request_id(self) -> int:
        return self.spec.request_id

    @property
    def prompt_ids(self) -> Sequence[int]:
        return self.spec.prompt_ids

    @property
    def params(self) -> SamplingParams:
        return self.spec.params

    @property
    def sample(self) -> int:
        """Index among the samples of its prompt."""
        return self.spec.sample

    @property
    def arrival_s(self) -> float:
        """When it came, by `time.perf_counter`."""
        return self.spec.arrival_s

    def take_spans(self, start: int, *, is_last: bool) -> tuple[OutputSpan, ...] | None:
        """Spans that the output tokens from `start` on complete; earlier calls have taken the
        tokens before. None: spans are not asked for.

        is_last: no more tokens come, so return all spans that are left
        """
        if self.span_reader is None:
            return () if self.params.return_spans else None
        token_ids = self.output_ids[start:]
        spans = self.span_reader.add(token_ids, own_logprobs(token_ids, self.logprobs[start:]))
        return tuple(spans + self.span_reader.finish() if is_last else spans)


@dataclass(frozen=True)
class RequestOutput:
    """What the caller gets.

    text:          what its tokens add behind the prompt, up to the stop string or token that ended
                   it; of a guided output exactly the bytes of its tokens
    token_ids:     of all its tokens, an end token and those of a stop string included
    finish_reason: "stop" | "length" | "error" | "abort"
    error:         the cause where finish_reason is "error", else None
    metrics:       what it cost: counts of tokens and iterations, times in seconds
    logprobs:      for each token, its own Logprob and those of the likeliest tokens, by token id;
                   None: not asked for
    prompt_logprobs: the same for each token of the prompt, None for the first; fewer where the
                     request ended before its prompt was computed; None: not asked for, or this is
                     the second or a later sample
    stop_reason:   the stop string or stop token id that ended it; None for the model's own end
                   token and where finish_reason is not "stop"
    others:        the second and later samples of its prompt, where SamplingParams.n asks for them
    iterations:    the iterations that gave it tokens or held it, in order; None: not asked for
    spans:         the spans of its tokens (which field each is part of), in order; None: not asked
                   for
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    error: SpecguideError | None
    metrics: RequestMetrics
    logprobs: tuple[dict[int, Logprob], ...] | None = None
    stop_reason: str | int | None = None
    others: tuple[RequestOutput, ...] = ()
    prompt_logprobs: tuple[dict[int, Logprob] | None, ...] | None = None
    iterations: tuple[Iteration, ...] | None = None
    spans: tuple[OutputSpan, ...] | None = None

    @classmethod
    def of(cls, samples: Sequence[Request]) -> RequestOutput:
        """The output of a prompt's samples, all of which have ended."""
        request, *others = samples
        assert request.finish_reason is not None
        prompt_logprobs = request.prompt_logprobs if request.spec.has_prompt_logprobs else None
        return cls(
            text=request.text.text,
            token_ids=tuple(request.output_ids),
            finish_reason=request.finish_reason,
            error=request.error,
            metrics=request.metrics,
            logprobs=None if request.params.logprobs is None else tuple(request.logprobs),
            stop_reason=request.stop_reason,
            others=tuple(cls.of([other]) for other in others),
            prompt_logprobs=None if prompt_logprobs is None else tuple(prompt_logprobs),
            iterations=tuple(request.iterations) if request.params.return_drafts else None,
            spans=request.take_spans(0, is_last=True),
        )

    @classmethod
    def refused(cls, error: SpecguideError) -> RequestOutput:
        """The output of a prompt that was refused before it became a request."""
        return cls("", (), "error", error, RequestMetrics())

    @property
    def samples(self) -> tuple[RequestOutput, ...]:
        """All samples of its prompt, this one first."""
        return (self, *self.others)

    if not TYPE_CHECKING:  # which would take it for an attribute of any name

        def __getattr__(self, name: str) -> NoReturn:
            raise missing(self, name, OTHER_OUTPUT_ATTRIBUTES)
