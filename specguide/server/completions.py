"""Owns /v1/completions: prompts continued as they are, whole or in chunks."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from specguide.engine import RequestDelta
from specguide.errors import InvalidParams
from specguide.params import SamplingParams
from specguide.server.backend import Backend, begun
from specguide.server.guides import guide_of
from specguide.server.requests import CompletionRequest


@dataclass(frozen=True)
class Continuation:
    """A request that has been understood: prompts that are continued alike."""

    prompts: list[list[int]]
    params: SamplingParams


def understand(backend: Backend, body: CompletionRequest) -> Continuation:
    """Raises InvalidParams and InvalidGuide, which name the field."""
    backend.check_model(body.model)
    for name in ("echo", "suffix"):
        if getattr(body, name):
            raise InvalidParams(f"{name} is not supported; leave it out", param=name)
    if body.best_of not in (None, body.n):
        raise InvalidParams(
            "best_of is not supported; leave it out, or ask for n samples", param="best_of"
        )
    one = isinstance(body.prompt, str) or (len(body.prompt) > 0 and isinstance(body.prompt[0], int))
    many: Any = [body.prompt] if one else body.prompt
    if not many:
        raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
    for prompt in many:
        backend.check_prompt(len(prompt) if isinstance(prompt, str) else 0, "prompt")
    prompts = [
        backend.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        for prompt in many
    ]
    for prompt_ids in prompts:
        backend.check_prompt_ids(prompt_ids, "prompt")
    backend.check_samples(len(prompts), body.n or 1)
    params = body.sampling(
        n=body.n, max_tokens=body.max_tokens, guide=guide_of(body), logprobs=body.logprobs
    )
    return Continuation(prompts, params)


@dataclass
class Choice:
    """One sample of one prompt."""

    text: str = ""
    finish_reason: str | None = None
    num_tokens: int = 0
    scores: dict[str, list[Any]] = field(
        default_factory=lambda: {
            "text_offset": [],
            "token_logprobs": [],
            "tokens": [],
            "top_logprobs": [],
        }
    )


class Answer:
    """All choices of a request; those of a prompt follow each other."""

    def __init__(self, backend: Backend, asked: Continuation) -> None:
        self._backend, self._asked = backend, asked
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": backend.config.model_name,
        }
        self._choices = [Choice() for _ in range(len(asked.prompts) * asked.params.n)]

    def usage(self) -> dict[str, int]:
        """Tokens of prompts and continuations."""
        prompt, completion = (
            sum(map(len, self._asked.prompts)),
            sum(choice.num_tokens for choice in self._choices),
        )
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def take(self, prompt: int, delta: RequestDelta) -> dict[str, Any]:
        """What a delta of a prompt's sample adds, as a chunk's choice."""
        index = prompt * self._asked.params.n + delta.index
        choice = self._choices[index]
        scores = self._scores(len(choice.text), delta)
        choice.text += delta.text
        choice.num_tokens += len(delta.token_ids)
        choice.finish_reason = delta.finish_reason
        for name, values in (scores or {}).items():
            choice.scores[name] += values
        return {
            "index": index,
            "text": delta.text,
            "finish_reason": delta.finish_reason,
            "logprobs": scores,
        }

    def whole(self) -> dict[str, Any]:
        """The completion object, once all has been taken."""
        has_scores = self._asked.params.logprobs is not None
        return {
            **self._head,
            "usage": self.usage(),
            "choices": [
                {
                    "index": index,
                    "text": choice.text,
                    "finish_reason": choice.finish_reason,
                    "logprobs": choice.scores if has_scores else None,
                }
                for index, choice in enumerate(self._choices)
            ],
        }

    def chunk(self, choice: dict[str, Any] | None, *, include_usage: bool) -> dict[str, Any]:
        """A chunk object; the one without a choice has the usage."""
        usage = {"usage": None if choice else self.usage()} if include_usage else {}
        return {**self._head, "choices": [choice] if choice else [], **usage}

    def _scores(self, offset: int, delta: RequestDelta) -> dict[str, list[Any]] | None:
        if delta.logprobs is None:
            return None
        scores = Choice().scores
        for token, entry in zip(delta.token_ids, delta.logprobs, strict=True):
            names = {one: self._backend.token_bytes(one).decode(errors="replace") for one in entry}
            scores["text_offset"].append(offset)
            scores["tokens"].append(names[token])
            scores["token_logprobs"].append(entry[token].logprob)
            scores["top_logprobs"].append(
                {names[one]: score.logprob for one, score in entry.items()}
            )
            offset += len(names[token])
        return scores


async def deltas(
    backend: Backend, asked: Continuation, priority: int, client: str
) -> AsyncIterator[tuple[int, RequestDelta]]:
    """Of all prompts, each with the prompt's index, once each has begun; they run beside each
    other."""
    streams = [
        backend.engine.generate(prompt, asked.params, priority=priority, client=client)
        for prompt in asked.prompts
    ]
    all_begun = [await begun(stream) for stream in streams]

    async def all_of_them() -> AsyncIterator[tuple[int, RequestDelta]]:
        for prompt, stream in enumerate(all_begun):
            async for delta in stream:
                yield prompt, delta

    return all_of_them()
