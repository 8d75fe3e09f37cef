"""Owns reading one sample of a task while it is written: its text, its calls, and the scores of its
tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from specguide.engine import RequestDelta
from specguide.guided.tools import ToolFormat
from specguide.request import Logprob, RequestMetrics
from specguide.server.backend import Backend
from specguide.server.events import End, Event, PromptScores, Said, Score, Text, Tokens
from specguide.server.task import Task
from specguide.server.tool_parser import ToolCallParser
from specguide.server.visible import VisibleText


class SampleReader:
    """Reads the deltas of one sample. sample: which of the task's"""

    def __init__(self, backend: Backend, task: Task, sample: int = 0) -> None:
        self._backend, self._sample, self._params = backend, sample, task.params
        self._prompt_ids = task.prompts[sample // task.params.n]
        self._num_rivals = task.params.logprobs or 0
        self._parser: ToolCallParser | None = None
        if task.tool_format is not None:
            self._parser = ToolCallParser(task.tool_format)
            self._must_call = task.must_call
            self._visible = VisibleText(
                backend.tokenizer,
                special_ids(backend, task.tool_format),
                self._prompt_ids,
                is_guided=task.params.guide is not None,
            )

    def read(self, delta: RequestDelta) -> Iterator[Event]:
        """What a delta adds."""
        if delta.prompt_logprobs is not None:
            yield PromptScores(tuple(self._prompt_scores(delta.prompt_logprobs)), self._sample)
        if delta.token_ids:
            yield Tokens(len(delta.token_ids), self._sample)
        scores = tuple(
            score_of(self._backend, token, entry, self._num_rivals)
            for token, entry in zip(delta.token_ids, delta.logprobs or (), strict=False)
        )
        if self._parser is None:
            yield from self._told([Text(delta.text)] if delta.text else [], scores)
        else:
            yield from self._parsed(self._parser, delta, scores)
        if delta.finish_reason is not None:
            metrics = delta.metrics or RequestMetrics()
            yield End(delta.finish_reason, delta.stop_reason, self._sample, metrics)

    def _parsed(
        self, parser: ToolCallParser, delta: RequestDelta, scores: tuple[Score, ...]
    ) -> Iterator[Event]:
        """Text and calls; with scores token by token, so that each is told with what it added."""
        steps = [(token,) for token in delta.token_ids] if scores else [delta.token_ids]
        for number, step in enumerate(steps):
            yield from self._told(parser.feed(self._visible.add(step)), scores[number : number + 1])
        if delta.finish_reason is not None:
            rest = parser.feed(self._visible.add((), is_last=True))
            yield from self._told(rest + ([] if self._must_call else parser.finish()))

    def _prompt_scores(self, entries: Sequence[Mapping[int, Logprob] | None]) -> Iterator[Score]:
        num_rivals = self._params.prompt_logprobs or 0
        for token, entry in zip(self._prompt_ids, entries, strict=False):
            if entry is None:
                yield Score(token, self._backend.token_bytes(token), None, 0)
            else:
                yield score_of(self._backend, token, entry, num_rivals)

    def _told(self, said: list[Said], scores: tuple[Score, ...] = ()) -> Iterator[Event]:
        """As this sample's; scores go with the first of them, or alone."""
        for event in said or ([Text("")] if scores else []):
            yield replace(event, sample=self._sample, scores=scores)
            scores = ()


def special_ids(backend: Backend, tool_format: ToolFormat) -> list[int]:
    """Of the format's marks, those that are special tokens."""
    ids = [backend.special_token(mark) for mark in tool_format.special_tokens]
    return [token for token in ids if token is not None]


def score_of(backend: Backend, token: int, entry: Mapping[int, Logprob], num_rivals: int) -> Score:
    """A token's score among those of its place."""

    def one(token: int, rivals: tuple[Score, ...] = ()) -> Score:
        found = entry[token]
        return Score(token, backend.token_bytes(token), found.logprob, found.rank, rivals)

    likeliest = sorted(entry, key=lambda one: -entry[one].logprob)[:num_rivals]
    return one(token, tuple(map(one, likeliest)))
