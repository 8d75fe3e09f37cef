"""Owns /v1/completions: it continues prompts as they are, and answers as a whole or in chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from specguide.errors import InvalidParams
from specguide.params.rules import MAX_SAMPLES
from specguide.server.apis.api import Api, JsonObject, Renderer
from specguide.server.apis.completion_choices import Choice, TextScores
from specguide.server.apis.openai_objects import (
    ChunkUsage,
    prompt_logprobs,
    span_objects,
    usage_object,
)
from specguide.server.apis.returned_ids import ReturnedIds
from specguide.server.bodies.requests import CompletionRequest
from specguide.server.http.request_ids import answer_id
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import End, Event, PromptScores, Score, Spans, Text, Tokens
from specguide.server.tasks.guides import (
    closed_guide,
    guide_of,
    response_format_guide,
    schema_rules,
)
from specguide.server.tasks.task import Task, Usage


def parse(backend: Backend, body: CompletionRequest) -> Task:
    """The task of a body. Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    model = backend.check_model(body.model)
    num_samples = _num_samples(body)
    body.check_whole(body.stream)
    prompts, texts = _prompts(backend, body)
    backend.check_samples(len(prompts), num_samples)
    rules = schema_rules(backend.config, body)
    asked = response_format_guide(body.response_format, rules)
    guide = closed_guide(guide_of(body, rules, {"response_format": asked}), rules)
    params = body.sampling(
        backend.sampling_defaults,
        n=num_samples,
        max_tokens=1 if body.most_tokens == 0 else body.most_tokens,
        guide=guide,
        lora=backend.adapter(body.model),
        logprobs=0 if body.logprobs is None and _is_chosen(body) else body.logprobs,
        prompt_logprobs=_scored_of_prompt(body),
    )
    return Task(
        model,
        prompts,
        params,
        priority=body.priority,
        returns_spans=body.return_spans,
        echoed=texts if body.echo else (),
    )


def _scored_of_prompt(body: CompletionRequest) -> int | None:
    """How many likeliest tokens to score at each position of a prompt: the larger of the numbers in
    both fields; None: no scores. A wrong number is kept, and refused later."""
    echoed, asked = body.logprobs if body.echo else None, body.prompt_logprobs
    if echoed is None or asked is None:
        return echoed if asked is None else asked
    return asked if asked < 0 else max(echoed, asked)


def _with_rivals(scores: Sequence[Score], num: int | None) -> list[Score]:
    """The scores, each with at most `num` of the likeliest tokens."""
    return [msgspec.structs.replace(one, rivals=one.rivals[: num or 0]) for one in scores]


def _is_chosen(body: CompletionRequest) -> bool:
    """Whether more samples are generated than returned, of which the best are chosen."""
    return body.best_of is not None and body.best_of > (body.n or 1)


def _num_samples(body: CompletionRequest) -> int:
    """Number of samples to generate of each prompt. Raises InvalidParams."""
    num_wanted = 1 if body.n is None else body.n
    if body.best_of is None:
        return num_wanted
    if not num_wanted <= body.best_of <= MAX_SAMPLES:
        raise InvalidParams(
            f"best_of must be an integer from n = {num_wanted} to {MAX_SAMPLES}, found "
            f"{body.best_of}",
            param="best_of",
        )
    if body.stream and _is_chosen(body):
        raise InvalidParams(
            "best_of cannot be streamed, since it chooses among samples that have ended: leave "
            "stream or best_of out",
            param="best_of",
        )
    return body.best_of


def _prompts(
    backend: Backend, body: CompletionRequest
) -> tuple[tuple[list[int], ...], tuple[str, ...]]:
    """Token ids of each prompt, and its text. Raises InvalidParams."""
    one = isinstance(body.prompt, str) or (len(body.prompt) > 0 and isinstance(body.prompt[0], int))
    many: Any = [body.prompt] if one else body.prompt
    if not many:
        raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
    for prompt in many:
        backend.check_prompt(len(prompt) if isinstance(prompt, str) else 0, "prompt")
    prompts = tuple(
        backend.tokenizer.encode(prompt, body.add_special_tokens)
        if isinstance(prompt, str)
        else list(prompt)
        for prompt in many
    )
    room = backend.engine.max_model_len - (body.most_tokens or 1)
    kept = tuple(body.cut(prompt_ids, room) for prompt_ids in prompts)
    for prompt_ids in kept:
        backend.check_prompt_ids(prompt_ids, "prompt")
    return kept, tuple(
        prompt
        if not body.echo or (isinstance(prompt, str) and len(kept_ids) == len(prompt_ids))
        else backend.text_of(kept_ids, "prompt", skip_special_tokens=body.skip_special_tokens)
        for prompt, prompt_ids, kept_ids in zip(many, prompts, kept, strict=True)
    )


class CompletionRenderer(Renderer[CompletionRequest]):
    """Writes all choices; those of a prompt follow each other."""

    last_line = b"data: [DONE]\n\n"

    def __init__(self, body: CompletionRequest, task: Task) -> None:
        super().__init__(body, task)
        self._head = {
            "id": answer_id("cmpl"),
            "object": "text_completion",
            "created": int(time.time()),
            "model": task.model,
        }
        self._is_empty = body.most_tokens == 0
        self.usage = Usage(task, counts_output=not self._is_empty)
        self._chunk_usage = ChunkUsage(body.stream_options, self.usage)
        self._choices = [self._choice(index) for index in range(task.num_samples)]
        self._early: dict[int, list[Event]] = {}
        """Events of each prompt that came before its scores, which must be written first."""
        for number, prompt in enumerate(task.echoed):
            if body.logprobs is not None:
                self._early[number] = []
            else:
                for choice in self._samples(number):
                    choice.text = prompt

    def _choice(self, index: int) -> Choice:
        body = self.body
        prompt_ids = self.task.prompts[index // self.task.params.n]
        names_ids, is_streamed = bool(body.return_tokens_as_token_ids), bool(body.stream)
        scores = TextScores(names_ids, is_kept=not is_streamed)
        return Choice(
            index,
            ReturnedIds(bool(body.return_token_ids), is_streamed, prompt_ids),
            is_streamed=is_streamed,
            scores=None if body.logprobs is None else scores,
            spans=[] if body.return_spans else None,
        )

    def begin(self) -> Iterator[JsonObject]:
        for choice in self._choices:
            if choice.text:
                yield self._chunk(choice.begun())

    def take(self, event: Event) -> Iterable[JsonObject]:
        number = event.sample // self.task.params.n
        if isinstance(event, PromptScores):
            yield from self._take_scores(number, event)
        elif number in self._early:
            self._early[number].append(event)
        elif isinstance(event, Tokens) and not self._is_empty:
            self._choices[event.sample].ids.add(event.token_ids)
        elif isinstance(event, Text) and not self._is_empty:
            yield self._chunk(self._choices[event.sample].add(event.text, event.scores))
        elif isinstance(event, Spans) and not self._is_empty:
            yield self._chunk(self._choices[event.sample].spanned(span_objects(event.spans)))
        elif isinstance(event, End):
            is_cut = self._is_empty and event.finish_reason == "stop"
            reason = "length" if is_cut else event.finish_reason
            yield self._chunk(self._choices[event.sample].end(reason, event.stop_reason))

    def end(self) -> Iterator[JsonObject]:
        yield from self._late()
        if self._chunk_usage.in_last_chunk:
            yield {**self._head, "choices": [], "usage": usage_object(self.usage)}

    def whole(self) -> JsonObject:
        """The completion object."""
        list(self._late())
        return {
            **self._head,
            "usage": usage_object(self.usage),
            "choices": [choice.whole(index) for index, choice in enumerate(self._best())],
        }

    def _best(self) -> Iterator[Choice]:
        """The samples of each prompt that are returned: those whose tokens are the likeliest."""
        num_wanted = self.body.n or 1
        for number in range(len(self.task.prompts)):
            samples = self._samples(number)
            if num_wanted < len(samples):
                samples = sorted(samples, key=lambda one: -one.mean_logprob)[:num_wanted]
            yield from samples

    def _samples(self, number: int) -> list[Choice]:
        """The samples of a prompt."""
        num_made = self.task.params.n
        return self._choices[number * num_made : (number + 1) * num_made]

    def _take_scores(self, number: int, event: PromptScores) -> Iterator[JsonObject]:
        asked = self.body.prompt_logprobs
        if asked is not None:
            for choice in self._samples(number):
                choice.prompt_logprobs = prompt_logprobs(_with_rivals(event.scores, asked))
        if number in self._early:
            early = self._early.pop(number)
            yield from self._echo(number, event.scores)
            for one in early:
                yield from self.take(one)

    def _late(self) -> Iterator[JsonObject]:
        """The objects of events that still wait for scores, of prompts that ended without them."""
        for number in list(self._early):
            yield from self._take_scores(number, PromptScores(()))

    def _echo(self, number: int, scores: Sequence[Score] = ()) -> Iterator[JsonObject]:
        scores = _with_rivals(scores, self.body.logprobs)
        for choice in self._samples(number):
            yield self._chunk(choice.echo(self.task.echoed[number], scores))

    def _chunk(self, choice: JsonObject) -> JsonObject:
        return {**self._head, "choices": [choice], **self._chunk_usage.fields()}


API = Api(
    "/v1/completions",
    "Continue prompts, as OpenAI's API does.",
    CompletionRequest,
    parse,
    CompletionRenderer,
)
