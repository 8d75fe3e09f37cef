"""Owns Answer, the record of one streamed answer: its events, and when each arrived."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from specguide.bench.workload import LoadRequest


@dataclass
class Call:
    """A tool call, put together from its pieces."""

    name: str = ""
    arguments: str = ""


@dataclass
class Answer:
    """The result of a request. Times are of time.perf_counter(), in seconds.

    due_s:         when it should have been sent
    end_s:         when its stream ended, or broke
    arrivals_s:    arrival of each chunk with text, a piece of a call or log-probabilities
    status:        HTTP status; None if there was no response
    failure:       what broke it, briefly and in detail; None if nothing did
    ids:           ids of its chunks; exactly one if all is well
    num_scored:    tokens whose log-probability was received
    is_done:       the stream ended with [DONE]
    """

    request: LoadRequest
    due_s: float
    end_s: float = 0.0
    arrivals_s: list[float] = field(default_factory=list)
    status: int | None = None
    failure: tuple[str, str] | None = None
    ids: set[str] = field(default_factory=set)
    content: str = ""
    calls: dict[int, Call] = field(default_factory=dict)
    num_scored: int = 0
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    is_done: bool = False

    def take(self, line: str, now_s: float) -> None:
        """Take in one line of the event stream, which arrived at `now_s`."""
        if not line.startswith("data:"):
            return
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.is_done = True
            return
        try:
            self._take_chunk(json.loads(data), now_s)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.failure = self.failure or ("malformed chunk", f"{error!r} in {data[:200]}")

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer, as counted by the server; 0 if it does not report them."""
        return int((self.usage or {}).get("completion_tokens") or 0)

    def _take_chunk(self, chunk: dict[str, Any], now_s: float) -> None:
        if error := chunk.get("error"):
            self.failure = (
                "error event",
                str(error.get("message") if isinstance(error, dict) else error),
            )
            return
        self.ids.add(str(chunk["id"]))
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            scores = (choice.get("logprobs") or {}).get("content") or ()
            self.num_scored += len(scores)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            pieces = delta.get("tool_calls") or ()
            for piece in pieces:
                self._take_piece(piece)
            text = delta.get("content") or choice.get("text") or ""  # of chat or completions
            self.content += text
            if scores or pieces or text or delta.get("reasoning_content") or delta.get("reasoning"):
                self.arrivals_s.append(now_s)

    def _take_piece(self, piece: dict[str, Any]) -> None:
        call = self.calls.setdefault(piece["index"], Call())
        function = piece.get("function") or {}
        call.name += function.get("name") or ""
        call.arguments += function.get("arguments") or ""
