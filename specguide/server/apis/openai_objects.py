"""Owns objects that several of OpenAI's APIs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specguide.request_records import OutputSpan
from specguide.server.bodies.requests import StreamOptions
from specguide.server.tasks.events import Score
from specguide.server.tasks.task import Usage


def token_score(score: Score, *, as_id: bool = False) -> dict[str, Any]:
    """A token's log-probability and those of its rivals. as_id: as in Score.name"""
    rivals = [_named(rival, as_id=as_id) for rival in score.rivals]
    return {**_named(score, as_id=as_id), "top_logprobs": rivals}


def prompt_logprobs(scores: Sequence[Score]) -> list[dict[str, Any] | None]:
    """Log-probabilities of a prompt's tokens in vLLM's form: each with its rivals, by token id."""
    return [
        None
        if score.logprob is None
        else {
            str(one.token_id): {
                "logprob": one.logprob,
                "rank": one.rank,
                "decoded_token": one.text,
            }
            for one in (*score.rivals, score)
        }
        for score in scores
    ]


def span_objects(spans: Sequence[OutputSpan]) -> list[dict[str, Any]]:
    """The spans of tokens, without fields that are None."""
    return [
        {name: value for name, value in span._asdict().items() if value is not None}
        for span in spans
    ]


def usage_object(usage: Usage) -> dict[str, Any]:
    """The numbers of tokens so far, in the form of chat and completions."""
    return {
        "prompt_tokens": usage.num_prompt,
        "completion_tokens": usage.num_output,
        "total_tokens": usage.num_prompt + usage.num_output,
        "completion_tokens_details": {"reasoning_tokens": usage.num_reasoning},
        "prompt_tokens_details": {"cached_tokens": usage.num_cached},
    }


class ChunkUsage:
    """The usage in a stream's chunks. in_last_chunk: a last chunk has it"""

    def __init__(self, options: StreamOptions | None, usage: Usage) -> None:
        self.in_last_chunk = options is not None and options.include_usage
        self._is_continuous = options is not None and options.continuous_usage_stats
        self._usage = usage

    def fields(self) -> dict[str, Any]:
        """The usage fields of a chunk before the last."""
        if not self.in_last_chunk:
            return {}
        return {"usage": usage_object(self._usage) if self._is_continuous else None}


def _named(score: Score, *, as_id: bool) -> dict[str, Any]:
    return {
        "token": score.name(as_id=as_id),
        "logprob": score.logprob,
        "bytes": list(score.spelled),
    }
