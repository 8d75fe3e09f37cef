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


def _no_scores() -> dict[str, list[Any]]:
    return {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


@dataclass
class Choice:
    """One sample of one prompt.

    has_scores:      log-probabilities are returned
    names_ids:       scored tokens are named by their ids instead of their texts
    keeps_scores:    scores are kept until the end, since the answer is not streamed
    prompt_logprobs: as in vLLM; None: not asked for
    spans:           None: not asked for
    ids:             token ids of the sample and its prompt
    offset:          characters of the text that its scored tokens have spelled
    total_logprob:   sum over its output tokens, of which there are num_scored
    """

    index: int
    has_scores: bool
    ids: ReturnedIds = field(default_factory=ReturnedIds)
    keeps_scores: bool = True
    names_ids: bool = False
    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    scores: dict[str, list[Any]] = field(default_factory=_no_scores)
    prompt_logprobs: list[JsonObject | None] | None = None
    total_logprob: float = 0.0
    num_scored: int = 0
    spans: list[JsonObject] | None = None
    offset: int = 0
    _decoder: codecs.IncrementalDecoder = field(default_factory=_decoder)

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
        self.offset, self._decoder = len(prompt), _decoder()
        return choice

    def add(self, text: str, scores: Sequence[Score]) -> JsonObject:
        """Take more output; returns a chunk's choice."""
        self.total_logprob += sum(score.logprob or 0.0 for score in scores)
        self.num_scored += len(scores)
        return self._grow(text, scores)

    def spanned(self, spans: list[JsonObject]) -> JsonObject:
        """Take the spans of its tokens; returns a chunk's choice."""
        if self.spans is not None and self.keeps_scores:
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
            "logprobs": self.scores if self.has_scores else None,
            **({"prompt_logprobs": self.prompt_logprobs} if asked else {}),
            **({} if self.spans is None else {"spans": self.spans}),
            **self.ids.rest(),
        }

    def _grow(self, text: str, scores: Sequence[Score], prompt: str = "") -> JsonObject:
        """prompt: the text, if it is a prompt, in which special tokens may be spelled out"""
        offsets = [self._pass(score, prompt) for score in scores]
        more = None
        if scores and self.has_scores:
            more = _score_columns(offsets, scores, as_id=self.names_ids)
        self.text += text
        if more and self.keeps_scores:
            for name, values in more.items():
                self.scores[name] += values
        choice = {"index": self.index, "text": text, "finish_reason": None, "logprobs": more}
        return choice | self.ids.more()

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


def _score_columns(
    offsets: Sequence[int], scores: Sequence[Score], *, as_id: bool
) -> dict[str, list[Any]]:
    """offsets: characters of the text before each token; as_id: as in Score.name"""
    columns = _no_scores()
    for offset, score in zip(offsets, scores, strict=True):
        columns["text_offset"].append(offset)
        columns["tokens"].append(score.name(as_id=as_id))
        columns["token_logprobs"].append(score.logprob)
        columns["top_logprobs"].append(
            None if score.logprob is None else _by_name(score, as_id=as_id)
        )
    return columns


def _by_name(score: Score, *, as_id: bool) -> dict[str, float | None]:
    """The log-probabilities at one position, by text. Of tokens with equal texts, such as parts of
    characters, the likeliest one's is kept: clients compare it with that of the token itself."""
    logprobs: dict[str, float | None] = {}
    for one in (*score.rivals, score):
        logprobs.setdefault(one.name(as_id=as_id), one.logprob)
    return logprobs
