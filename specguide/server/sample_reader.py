"""Owns reading one sample of a turn while it is written: its text, its calls, and the scores of its
tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specguide.engine import RequestDelta
from specguide.guided.tools import ToolFormat
from specguide.request import Logprob
from specguide.server.backend import Backend
from specguide.server.tool_parser import Event, Text, ToolCallParser
from specguide.server.turn import Turn
from specguide.server.visible import VisibleText

Score = dict[str, Any]
"""A token's log-probability, as OpenAI has it."""


@dataclass(frozen=True)
class Piece:
    """What some tokens made certain, and their scores, if asked for. With scores and tools, a piece
    is one token."""

    events: list[Event]
    scores: list[Score]


class SampleReader:
    """Reads the deltas of one sample.

    num_tokens:    so far
    finish_reason: the engine's, once the last delta is read
    """

    def __init__(self, backend: Backend, turn: Turn) -> None:
        self._backend, self._num_rivals = backend, turn.params.logprobs or 0
        self._parser: ToolCallParser | None = None
        if turn.tool_format is not None:
            self._parser = ToolCallParser(turn.tool_format)
            self._visible = VisibleText(
                backend.tokenizer,
                special_ids(backend, turn.tool_format),
                turn.prompt_ids,
                is_guided=turn.params.guide is not None,
            )
        self.num_tokens = 0
        self.finish_reason: str | None = None

    @property
    def num_calls(self) -> int:
        """So far."""
        return self._parser.num_calls if self._parser is not None else 0

    def read(self, delta: RequestDelta) -> list[Piece]:
        """What a delta adds."""
        self.num_tokens += len(delta.token_ids)
        self.finish_reason = delta.finish_reason
        scores = [
            token_score(self._backend, token, entry, self._num_rivals)
            for token, entry in zip(delta.token_ids, delta.logprobs or (), strict=False)
        ]
        if self._parser is None:
            return [Piece([Text(delta.text)] if delta.text else [], scores)]
        steps = [[token] for token in delta.token_ids] if scores else [delta.token_ids]
        pieces = [
            Piece(self._parser.feed(self._visible.add(step)), scores[number : number + 1])
            for number, step in enumerate(steps)
        ]
        if delta.finish_reason is not None:
            rest = self._parser.feed(self._visible.add((), is_last=True))
            pieces.append(Piece(rest + self._parser.finish(), []))
        return pieces


def special_ids(backend: Backend, tool_format: ToolFormat) -> list[int]:
    """Of the format's marks, those that are special tokens."""
    ids = [backend.special_token(mark) for mark in tool_format.special_tokens]
    return [token for token in ids if token is not None]


def token_score(backend: Backend, token: int, entry: dict[int, Logprob], num_rivals: int) -> Score:
    """A token's log-probability and those of the likeliest ones, as OpenAI has them."""

    def named(one: int) -> dict[str, Any]:
        spelled = backend.token_bytes(one)
        return {
            "token": spelled.decode(errors="replace"),
            "logprob": entry[one].logprob,
            "bytes": list(spelled),
        }

    rivals = sorted(entry, key=lambda one: -entry[one].logprob)[:num_rivals]
    return {**named(token), "top_logprobs": [named(one) for one in rivals]}
