"""Outputs that are read piece by piece, and their events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from specguide.config import GuideConfig
from specguide.guided.reading import OutputForm, OutputReader
from specguide.guided.tools import Tool, ToolFormat, tool_guide
from specguide.server.running.said_pieces import SaidPieces
from specguide.server.tasks.events import Said


def no_token(_: str) -> None:
    """The special token of a mark: none, so that all marks are text."""


def form_of(
    one: ToolFormat,
    tools: Sequence[Tool],
    special: Callable[[str], int | None] = no_token,
    **options: object,
) -> OutputForm:
    """The form of a message with tools."""
    guide = tool_guide(one, tools, special, GuideConfig(), **options)  # type: ignore[arg-type]
    return OutputForm.of(guide, None)


def cut(data: bytes, size: int) -> list[bytes]:
    """The data in pieces of a size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def events_of(form: OutputForm, stretches: Iterable[bytes]) -> list[Said]:
    """All events of an output, up to its end."""
    reader, said = OutputReader(form), SaidPieces(tells_reasoning=True)
    events = [event for one in stretches for event in said.take(reader.feed(one))]
    return events + said.take(reader.finish()) + said.finish()
