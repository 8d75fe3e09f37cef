"""Owns the separation of a sample's reasoning, text and calls while it is generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specguide.guided.reading import OutputForm, OutputReader, ReasoningMarks
from specguide.guided.reading.form import spelled_mark
from specguide.server.running.said_pieces import SaidPieces
from specguide.server.running.stop_tail import StopTail
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import Said
from specguide.server.tasks.task import Task


def output_form(backend: Backend, task: Task) -> OutputForm:
    """The form of the outputs of a task's samples."""
    expected, marks = task.reasoning, None
    if expected is not None:
        begin = None if expected.is_begun else expected.format.begin
        others = expected.answer, backend.special_token, expected.cut_by
        marks = ReasoningMarks.of(expected.end, begin, *others)
    form = OutputForm.of(task.params.guide, marks)
    if not task.params.skip_special_tokens:
        form = replace(form, names=backend.names)
    after = task.after_answer
    return replace(form, after=spelled_mark(after, backend.special_token)) if after else form


class ParsedSample:
    """Separates the reasoning, text and calls of one sample, of which it is given the tokens."""

    def __init__(self, backend: Backend, task: Task, form: OutputForm) -> None:
        skips_special = task.params.skip_special_tokens
        self._spelled = backend.spelled if skips_special else backend.spelled_with_ends
        self._stops = StopTail(task.params, form.names)
        self._reader = OutputReader(form)
        is_shown = task.reasoning is not None and task.reasoning.is_shown
        self._said = SaidPieces(tells_reasoning=is_shown, custom_tools=task.custom_tools)

    @property
    def is_reasoning(self) -> bool:
        """Whether the sample may be inside its reasoning."""
        return self._reader.is_reasoning

    @property
    def has_reasoned(self) -> bool:
        """Whether the sample has begun its reasoning."""
        return self._reader.has_reasoned

    def add(self, token_ids: Sequence[int], *, is_last: bool = False) -> list[Said]:
        """The events of the next tokens. is_last: see StopTail"""
        spelled = [self._spelled[token] for token in token_ids]
        return self._said.take(self._reader.feed(self._stops.feed(*spelled, is_last=is_last)))

    def finish(self, stop: str | int | None, num_bytes: int) -> list[Said]:
        """The events of what was held back. stop, num_bytes: see StopTail"""
        left = self._stops.finish(stop, num_bytes)
        pieces = self._reader.feed(left) + self._reader.finish()
        return self._said.take(pieces) + self._said.finish()
