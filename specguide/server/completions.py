"""Owns /v1/completions: prompts continued as they are, whole or in chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.api import Api, Renderer, Told
from specguide.server.backend import Backend
from specguide.server.events import End, Event, Score, Text
from specguide.server.guides import closed_guide, guide_of, response_format_guide, schema_rules
from specguide.server.openai_objects import ChunkUsage, usage_object
from specguide.server.requests import CompletionRequest
from specguide.server.task import Task


def parse(backend: Backend, body: CompletionRequest) -> Task:
    """Raises ApiError, InvalidParams and InvalidGuide, which name the field."""
    model = backend.check_model(body.model)
    if body.echo:
        raise InvalidParams("echo is not supported; leave it out", param="echo")
    if body.best_of not in (None, body.n):
        raise InvalidParams(
            "best_of is not supported; leave it out, or ask for n samples", param="best_of"
        )
    prompts = prompts_of(backend, body)
    backend.check_samples(len(prompts), body.n or 1)
    rules = schema_rules(backend.config, body)
    asked = response_format_guide(body.response_format, rules)
    guide = closed_guide(guide_of(body, rules, {"response_format": asked}), rules)
    params = body.sampling(
        n=body.n, max_tokens=body.max_tokens, guide=guide, logprobs=body.logprobs
    )
    return Task(model, prompts, params, priority=body.priority)


def prompts_of(backend: Backend, body: CompletionRequest) -> tuple[list[int], ...]:
    """Token ids of each prompt. Raises InvalidParams."""
    one = isinstance(body.prompt, str) or (len(body.prompt) > 0 and isinstance(body.prompt[0], int))
    many: Any = [body.prompt] if one else body.prompt
    if not many:
        raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
    for prompt in many:
        backend.check_prompt(len(prompt) if isinstance(prompt, str) else 0, "prompt")
    prompts = tuple(
        backend.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        for prompt in many
    )
    for prompt_ids in prompts:
        backend.check_prompt_ids(prompt_ids, "prompt")
    return prompts


def _no_scores() -> dict[str, list[Any]]:
    return {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}


@dataclass
class Choice:
    """One sample of one prompt."""

    index: int
    text: str = ""
    finish_reason: str | None = None
    scores: dict[str, list[Any]] = field(default_factory=_no_scores)

    def add(self, text: str, scores: tuple[Score, ...]) -> Told:
        """More of it, as a chunk's choice."""
        more = _scores(len(self.text), scores) if scores else None
        self.text += text
        for name, values in (more or {}).items():
            self.scores[name] += values
        return {"index": self.index, "text": text, "finish_reason": None, "logprobs": more}

    def end(self, reason: str) -> Told:
        """No more comes; as a chunk's choice."""
        self.finish_reason = reason
        return {"index": self.index, "text": "", "finish_reason": reason, "logprobs": None}


class CompletionRenderer(Renderer[CompletionRequest]):
    """Tells all choices; those of a prompt follow each other."""

    last_line = b"data: [DONE]\n\n"

    def __init__(self, body: CompletionRequest, task: Task) -> None:
        super().__init__(body, task)
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": task.model,
        }
        self._choices = [Choice(index) for index in range(task.num_samples)]
        self._chunk_usage = ChunkUsage(body.stream_options, self.usage)

    def take(self, event: Event) -> Iterable[Told]:
        if isinstance(event, Text):
            yield self._chunk(self._choices[event.sample].add(event.text, event.scores))
        elif isinstance(event, End):
            yield self._chunk(self._choices[event.sample].end(event.finish_reason))

    def end(self) -> Iterator[Told]:
        if self._chunk_usage.is_told:
            yield {**self._head, "choices": [], "usage": usage_object(self.usage)}

    def whole(self) -> Told:
        """The completion object."""
        has_scores = self.task.params.logprobs is not None
        return {
            **self._head,
            "usage": usage_object(self.usage),
            "choices": [
                {
                    "index": choice.index,
                    "text": choice.text,
                    "finish_reason": choice.finish_reason,
                    "logprobs": choice.scores if has_scores else None,
                }
                for choice in self._choices
            ],
        }

    def _chunk(self, choice: Told) -> Told:
        return {**self._head, "choices": [choice], **self._chunk_usage.told()}


def _scores(offset: int, scores: tuple[Score, ...]) -> dict[str, list[Any]]:
    """offset: characters before the first of them"""
    told = _no_scores()
    for score in scores:
        told["text_offset"].append(offset)
        told["tokens"].append(score.text)
        told["token_logprobs"].append(score.logprob)
        told["top_logprobs"].append({one.text: one.logprob for one in (score, *score.rivals)})
        offset += len(score.text)
    return told


API = Api(
    "/v1/completions",
    "Continue prompts, as OpenAI's API does.",
    CompletionRequest,
    parse,
    CompletionRenderer,
)
