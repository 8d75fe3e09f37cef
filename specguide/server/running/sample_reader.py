"""Owns the reading of one sample of a task while it is generated: its text, its calls, and the
scores of its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from specguide.engine import RequestDelta
from specguide.guided.reading import SpanReader
from specguide.request_records import Logprob, RequestMetrics, own_logprobs
from specguide.scheduler import hidden_ends
from specguide.server.running.parsed_sample import ParsedSample, output_form
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import End, Event, PromptScores, Said, Score, Spans, Text, Tokens
from specguide.server.tasks.task import Task


class SampleReader:
    """Reads the deltas of one sample. sample: its index in the task"""

    def __init__(self, backend: Backend, task: Task, sample: int = 0) -> None:
        self._backend, self._sample = backend, sample
        self._params = task.params
        self._prompt_ids = task.prompts[sample // task.params.n]
        self._num_rivals = task.params.logprobs or 0
        form = output_form(backend, task)
        self._num_bytes = 0  # of the text, as the engine counts it
        self._num_undecided = 0  # tokens that belong to a reasoning section, if one has begun
        self._parsed = None
        if form.calls is not None or form.reasoning is not None:
            self._parsed = ParsedSample(backend, task, form)
        self._spans = None
        if task.returns_spans:
            self._spans = SpanReader(form.with_tags(task.params.guide), backend.spelled)

    def read(self, delta: RequestDelta) -> Iterator[Event]:
        """The events of a delta."""
        if delta.prompt_logprobs is not None:
            yield PromptScores(tuple(self._prompt_scores(delta.prompt_logprobs)), self._sample)
        if self._parsed is not None:
            yield from self._read(self._parsed, delta, self._scores(delta))
        else:
            if delta.token_ids:
                ids = tuple(delta.token_ids)
                yield Tokens(len(ids), self._sample, token_ids=ids)
            if delta.logprobs is not None:
                yield from self._scored(delta)
            elif delta.text:
                yield Text(delta.text, self._sample)
        if self._spans is not None:
            yield from self._spanned(self._spans, delta)
        if delta.finish_reason is not None:
            metrics = delta.metrics or RequestMetrics()
            yield End(delta.finish_reason, delta.stop_reason, self._sample, metrics)

    def _scores(self, delta: RequestDelta) -> tuple[Score, ...]:
        """The scores of the delta's tokens, where they are asked for."""
        names_special = not self._params.skip_special_tokens
        return tuple(
            score_of(self._backend, token, entry, self._num_rivals, names_special=names_special)
            for token, entry in zip(delta.token_ids, delta.logprobs or (), strict=False)
        )

    def _scored(self, delta: RequestDelta) -> Iterator[Event]:
        """Text with its scores; a token that adds nothing to the text gets its own event."""
        scores, num_spelling = self._scores(delta), len(delta.token_ids)
        num_spelling -= self._ends_without_text(delta)
        said: list[Said] = [Text(delta.text)] if delta.text else []
        yield from self._events(said, scores[:num_spelling])
        yield from self._events([], scores[num_spelling:])

    def _ends_without_text(self, delta: RequestDelta) -> bool:
        """Whether its last token ends the output, and adds nothing to the text."""
        if delta.finish_reason != "stop" or not delta.token_ids:
            return False
        return delta.token_ids[-1] in hidden_ends(
            self._backend.tokenizer.eos_token_ids, self._params
        )

    def _read(
        self, parsed: ParsedSample, delta: RequestDelta, scores: tuple[Score, ...]
    ) -> Iterator[Event]:
        """Reasoning, text and calls. With scores, and during reasoning, tokens are read one by one,
        so that each gets the text that it added."""
        self._num_bytes += len(delta.text.encode())
        ids = delta.token_ids
        spelling = ids[:-1] if self._ends_without_text(delta) else ids
        is_last = isinstance(delta.stop_reason, str)
        while ids:
            is_reasoning = parsed.is_reasoning
            num_now = 1 if scores or is_reasoning else len(ids)
            said = parsed.add(spelling[:num_now], is_last=is_last)
            num_reasoned = self._reasoned(parsed, num_now * is_reasoning)
            yield Tokens(num_now, self._sample, num_reasoned, tuple(ids[:num_now]))
            yield from self._events(said, scores[:num_now])
            ids, spelling, scores = ids[num_now:], spelling[num_now:], scores[num_now:]
        if delta.finish_reason is not None:
            yield from self._events(parsed.finish(delta.stop_reason, self._num_bytes))

    def _reasoned(self, parsed: ParsedSample, count: int) -> int:
        """How many tokens turn out to be reasoning, including `count` new ones that may be."""
        self._num_undecided += count
        if not parsed.has_reasoned:
            return 0
        found, self._num_undecided = self._num_undecided, 0
        return found

    def _spanned(self, reader: SpanReader, delta: RequestDelta) -> Iterator[Event]:
        """The spans that end with a delta."""
        logprobs = own_logprobs(delta.token_ids, delta.logprobs or ())
        spans = reader.add(delta.token_ids, logprobs)
        if delta.finish_reason is not None:
            spans += reader.finish()
        if spans:
            yield Spans(tuple(spans), self._sample)

    def _prompt_scores(self, entries: Sequence[Mapping[int, Logprob] | None]) -> Iterator[Score]:
        num_rivals = self._params.prompt_logprobs or 0
        for token, entry in zip(self._prompt_ids, entries, strict=False):
            if entry is None:
                spelled, is_special = self._backend.token_name(token)
                yield Score(token, spelled, None, 0, is_special=is_special)
            else:
                yield score_of(self._backend, token, entry, num_rivals)

    def _events(self, said: list[Said], scores: tuple[Score, ...] = ()) -> Iterator[Event]:
        """The events with this sample's index; scores go with the first event, or get their own."""
        for event in said or ([Text("")] if scores else []):
            yield replace(event, sample=self._sample, scores=scores)
            scores = ()


def score_of(
    backend: Backend,
    token: int,
    entry: Mapping[int, Logprob],
    num_rivals: int,
    *,
    names_special: bool = False,
) -> Score:
    """A token's score, with its rivals at the same position. names_special: special tokens add
    their names to the text"""

    def one(token: int, rivals: tuple[Score, ...] = ()) -> Score:
        found = entry[token]
        spelled, is_special = backend.token_name(token)
        adds_nothing = is_special and not names_special
        return Score(token, spelled, found.logprob, found.rank, rivals, adds_nothing)

    likeliest = sorted(entry, key=lambda one: -entry[one].logprob)[:num_rivals]
    return one(token, tuple(map(one, likeliest)))
