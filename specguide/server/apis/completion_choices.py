"""Owns the choice of /v1/completions for one sample: its text, after its prompt where that is
echoed, and the scores of its tokens."""

from __future__ import annotations

import codecs
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specguide.server.apis.api import JsonObject
from specguide.server.apis.returned_ids import ReturnedIds
from specguide.server.tasks.events import Score

Columns = dict[str, list[Any]]
"""The scores of tokens as OpenAI's older API has them, in lists."""


def _no_columns() -> Columns:
    return {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


@dataclass
class TextScores:
    """The scores of a text's tokens.

    names_ids: tokens are named by their ids instead of their texts
    is_kept:   they are kept until the end, since the answer is not streamed
    columns:   those that are kept
    offset:    characters of the text that the scored tokens have spelled
    """

    names_ids: bool = False
    is_kept: bool = True
    columns: Columns = field(default_factory=_no_columns)
    offset: int = 0
    _decoder: codecs.IncrementalDecoder = field(default_factory=_decoder)

    def more(self, scores: Sequence[Score], prompt: str = "") -> Columns | None:
        """The columns of the text's next tokens; None if there are none. prompt: the text, if it is
        a prompt, in which special tokens may be spelled out"""
        if not scores:
            return None
        columns = _no_columns()
        for score in scores:
            rivals = None if score.logprob is None else self._by_name(score)
            columns["text_offset"].append(self._pass(score, prompt))
            columns["tokens"].append(score.name(as_id=self.names_ids))
            columns["token_logprobs"].append(score.logprob)
            columns["top_logprobs"].append(rivals)
        if self.is_kept:
            for name, values in columns.items():
                self.columns[name] += values
        return columns

    def end_prompt(self, num_chars: int) -> None:
        """Go on behind a prompt of so many characters."""
        self.offset, self._decoder = num_chars, _decoder()

    def _pass(self, score: Score, prompt: str) -> int:
        """The position in the text where the next token begins, which may lie beyond the text so
        far: deltas may have any number of tokens."""
        is_inside = b"\x80" <= score.spelled[:1] < b"\xc0"  # begins inside a character
        if not is_inside:
            self.offset += len(self._decoder.decode(b"", final=True))
        begin = self.offset
        if not score.is_special:
            self.offset += len(self._decoder.decode(score.spelled))
        elif prompt.startswith(score.text, begin):
            self.offset += len(score.text)
        return begin

    def _by_name(self, score: Score) -> dict[str, float | None]:
        """The log-probabilities at one position, by text. Of tokens with equal texts, such as parts
        of characters, the likeliest one's is kept: clients compare it with that of the token
        itself."""
        logprobs: dict[str, float | None] = {}
        for one in (*score.rivals, score):
            logprobs.setdefault(one.name(as_id=self.names_ids), one.logprob)
        return logprobs


@dataclass
class Choice:
    """One sample of one prompt.

    is_streamed:     spans are not kept until the end
    scores:          None: not asked for
    prompt_logprobs: as in vLLM; None: not asked for
    spans:           None: not asked for
    ids:             token ids of the sample and its prompt
    total_logprob:   sum over its output tokens, of which there are num_scored
    """

    index: int
    ids: ReturnedIds = field(default_factory=ReturnedIds)
    is_streamed: bool = False
    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    scores: TextScores | None = None
    prompt_logprobs: list[JsonObject | None] | None = None
    total_logprob: float = 0.0
    num_scored: int = 0
    spans: list[JsonObject] | None = None

    @property
    def mean_logprob(self) -> float:
        """Mean log-probability of its output tokens."""
        return self.total_logprob / self.num_scored if self.num_scored else -math.inf

    def begun(self) -> JsonObject:
        """The first chunk's choice, before any output."""
        begun = {"index": self.index, "text": self.text, "finish_reason": None, "logprobs": None}
        return begun | self.ids.more()

    def echo(self, prompt: str, scores: Sequence[Score]) -> JsonObject:
        """Take its prompt; returns a chunk's choice."""
        choice = self._grow(prompt, scores, prompt)
        if self.scores is not None:
            self.scores.end_prompt(len(prompt))
        return choice

    def add(self, text: str, scores: Sequence[Score]) -> JsonObject:
        """Take more output; returns a chunk's choice."""
        self.total_logprob += sum(score.logprob or 0.0 for score in scores)
        self.num_scored += len(scores)
        return self._grow(text, scores)

    def spanned(self, spans: list[JsonObject]) -> JsonObject:
        """Take the spans of its tokens; returns a chunk's choice."""
        if self.spans is not None and not self.is_streamed:
            self.spans += spans
        return {**self._grow("", ()), "spans": spans}

    def end(self, reason: str, stop_reason: str | int | None) -> JsonObject:
        """End the choice; returns a chunk's choice."""
        self.finish_reason, self.stop_reason = reason, stop_reason
        choice = {"index": self.index, "text": "", **self._why(), "logprobs": None}
        return choice | self.ids.more()

    def _why(self) -> JsonObject:
        return {"finish_reason": self.finish_reason, "stop_reason": self.stop_reason}

    def whole(self, index: int) -> JsonObject:
        """The whole choice, once it has ended. index: its index in the answer"""
        asked = self.prompt_logprobs is not None
        return {
            "index": index,
            "text": self.text,
            **self._why(),
            "logprobs": None if self.scores is None else self.scores.columns,
            **({"prompt_logprobs": self.prompt_logprobs} if asked else {}),
            **({} if self.spans is None else {"spans": self.spans}),
            **self.ids.rest(),
        }

    def _grow(self, text: str, scores: Sequence[Score], prompt: str = "") -> JsonObject:
        """prompt: see TextScores.more"""
        more = None if self.scores is None else self.scores.more(scores, prompt)
        self.text += text
        choice = {"index": self.index, "text": text, "finish_reason": None, "logprobs": more}
        return choice | self.ids.more()
