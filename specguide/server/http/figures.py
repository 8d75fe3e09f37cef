"""Owns the engine's figures for Prometheus, and vLLM's names for those that mean the same there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specguide.engine.stats import EngineStats


@dataclass(frozen=True)
class Figure:
    """A number of EngineStats.

    name: follows "specguide_"; a counter's also gets "_total"
    vllm: follows "vllm:"; None: vLLM has no such figure
    """

    name: str
    kind: Literal["gauge", "counter"]
    about: str
    read: Callable[[EngineStats], float]
    vllm: str | None = None


@dataclass(frozen=True)
class Spread:
    """A histogram of EngineStats, of its latency or its sizes. name: its key there; vllm and the
    names: as in Figure"""

    name: str
    about: str
    vllm: str | None = None


FIGURES = (
    Figure(
        "requests_running",
        "gauge",
        "Requests that hold a slot",
        lambda stats: stats.num_running,
        "num_requests_running",
    ),
    Figure(
        "requests_waiting",
        "gauge",
        "Requests that wait for their grammar or for a slot",
        lambda stats: stats.num_waiting,
        "num_requests_waiting",
    ),
    Figure("slots", "gauge", "Slots", lambda stats: stats.max_batch_size),
    Figure(
        "kv_cache_usage",
        "gauge",
        "Share of the KV cache's pages that requests hold",
        lambda stats: stats.num_pages_used / stats.num_pages,
        "kv_cache_usage_perc",
    ),
    Figure(
        "prefix_cache_queries",
        "counter",
        "Prompt tokens looked up in the prefix cache, of requests that have ended",
        lambda stats: stats.prompts["prompt"],
        "prefix_cache_queries",
    ),
    Figure(
        "prefix_cache_hits",
        "counter",
        "Prompt tokens found in the prefix cache, of requests that have ended",
        lambda stats: stats.prompts["cached"],
        "prefix_cache_hits",
    ),
    Figure(
        "preemptions",
        "counter",
        "Times that a request was preempted: another one got its KV pages",
        lambda stats: stats.prompts["preemptions"],
        "num_preemptions",
    ),
    Figure(
        "prompt_tokens",
        "counter",
        "Prompt tokens of requests that have ended",
        lambda stats: stats.prompts["prompt"],
        "prompt_tokens",
    ),
    Figure(
        "output_tokens",
        "counter",
        "Tokens generated",
        lambda stats: stats.output_tokens,
        "generation_tokens",
    ),
    Figure("iterations", "counter", "Iterations", lambda stats: stats.iterations),
    Figure(
        "held_slots",
        "counter",
        "Iterations in which a request gained no token, since its bitmask rows were late",
        lambda stats: stats.grammar["held"],
    ),
    Figure(
        "late_draft_rows",
        "counter",
        "Bitmask rows that came too late for a drafter, which drafted without them",
        lambda stats: stats.grammar["late_draft_rows"],
    ),
    Figure(
        "guessed_draft_rows",
        "counter",
        "Bitmask rows of similar grammar states that a drafter used in place of exact ones",
        lambda stats: stats.grammar["guessed_draft_rows"],
    ),
    Figure(
        "verifications",
        "counter",
        "Verifications of requests that have ended",
        lambda stats: sum(stats.accepted["all"]),
        "spec_decode_num_drafts",
    ),
    Figure(
        "draft_tokens",
        "counter",
        "Draft tokens that were verified, all nodes of trees, of requests that have ended",
        lambda stats: stats.draft_tokens,
        "spec_decode_num_draft_tokens",
    ),
    Figure(
        "accepted_draft_tokens",
        "counter",
        "Draft tokens that the target accepted, of requests that have ended",
        lambda stats: sum(place * count for place, count in enumerate(stats.accepted["all"])),
        "spec_decode_num_accepted_tokens",
    ),
)

SIZES = (
    Spread("prompt", "Prompt tokens, of requests", "request_prompt_tokens"),
    Spread("output", "Output tokens, of requests", "request_generation_tokens"),
)

TIMES = (
    Spread("queue", "Time from arrival to first iteration", "request_queue_time"),
    Spread(
        "prefill",
        "Time from first iteration to first token",
        "request_prefill_time",
    ),
    Spread("ttft", "Time from arrival to first token", "time_to_first_token"),
    Spread("decode", "Time from first token to end", "request_decode_time"),
    Spread(
        "tpot",
        "Mean time per output token after a request's first one",
        "request_time_per_output_token",
    ),
    Spread("e2e", "Time from arrival to end", "e2e_request_latency"),
    Spread("compile", "Time to compile a grammar, with the wait in the queue"),
    Spread("compile_cached", "Time to get a grammar that was compiled before"),
)
