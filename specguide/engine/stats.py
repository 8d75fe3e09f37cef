"""Owns EngineStats, an engine's counts and times, and the counters of requests that have ended."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from specguide.engine.observers import Committed
from specguide.guide import Guide
from specguide.request import Request
from specguide.request_records import RequestMetrics

_LATENCY_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
_LATENCIES = ("queue", "prefill", "ttft", "decode", "tpot", "e2e", "compile", "compile_cached")
_TOKENS = tuple(float(step * 10**power) for power in range(6) for step in (1, 2, 5))
_ACCEPTANCE = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
_MOST_GUIDES = 20
_OTHER = "other"

TRANSFERS = {
    "requests": "Prompts whose KV pages this engine asked of another one, or was asked for",
    "pages": "KV pages received or sent",
    "bytes": "Bytes of KV pages received or sent",
    "seconds": "Time from asking for the pages of a prompt to its last page, summed over prompts",
    "fallbacks": "Prompts that were computed here, as their pages were refused, late or lost",
}
"""The counters of pages that move between engines, and what each means."""


@dataclass
class Histogram:
    """How many values fell into each bucket.

    bounds: upper bounds of all buckets but the last, ascending; a value equal to a bound is in the
            bucket below it
    counts: number of values in each bucket
    total:  sum of all values
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[float, int]]:
        """Each upper bound with the number of values up to it, infinity last: the `le` buckets of
        Prometheus."""
        return list(zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True))

    def copy(self) -> Histogram:
        """A copy as of now."""
        return Histogram(self.bounds, list(self.counts), self.total)


@dataclass
class Totals:
    """Counts since the start of an engine, as in EngineStats."""

    iterations: int = 0
    output_tokens: int = 0
    step_s: float = 0.0

    def take(self, committed: Committed) -> None:
        """Count one more iteration."""
        self.iterations += 1
        self.output_tokens += sum(len(advance.tokens) for advance in committed.advances)


def _guide_hash(guide: Guide) -> str | None:
    """A short hash; None of a matcher, which has no text that could be hashed."""
    if guide.matcher is not None:
        return None
    source = f"{guide.kind} {guide.source()}".encode(errors="surrogatepass")
    return blake2b(source, digest_size=4).hexdigest()


def _gained(metrics: RequestMetrics) -> dict[str, int]:
    """The counts of one request."""
    num_iterations = sum(metrics.accepted_histogram)
    return {"requests": 1, "iterations": num_iterations, "tokens": metrics.num_gained}


class GuideCounts:
    """Counts of ended requests by guide. The guides that are used most have counts of their own;
    all others are counted together.

    by_guide: "requests", "iterations" and the "tokens" that these gained, by a hash of the guide;
              "other" has the counts of all guides that others have displaced
    """

    def __init__(self) -> None:
        self.by_guide: dict[str, Counter[str]] = {}

    def add(self, guide: Guide, metrics: RequestMetrics) -> None:
        """Count one more request. A new guide displaces the one that is used least."""
        name = _guide_hash(guide) or _OTHER
        if name not in self.by_guide:
            self._make_room()
        self.by_guide.setdefault(name, Counter()).update(_gained(metrics))

    def _make_room(self) -> None:
        known = self.by_guide.keys() - {_OTHER}
        if len(known) >= _MOST_GUIDES:
            least = min(known, key=lambda name: self.by_guide[name]["requests"])
            self.by_guide.setdefault(_OTHER, Counter()).update(self.by_guide.pop(least))


class RequestCounts:
    """Counts of ended requests. The engine's thread counts; other threads may read copies.

    finished: number of requests by finish_reason
    latency:  histograms in seconds: "queue" (arrival to first iteration), "prefill" (from there to
              the first token), "ttft" (arrival to first token), "decode" (first token to end),
              "tpot" (mean time per token after the first), "e2e" (arrival to end, all requests);
              for guided requests "compile", or "compile_cached" where the compiled grammar was
              cached
    sizes:    histograms of the "prompt" tokens and "output" tokens of each request
    acceptance: histogram of tokens gained per iteration, of requests that had iterations
    guides:   as in GuideCounts
    adapters: the same counts by the name of the LoRA adapter, of requests that had one
    accepted: entry a counts the iterations that accepted a drafts: "all" iterations, and those of
              "guided" requests
    draft_tokens: drafts that were verified, all nodes of trees
    prompts:  number of "prompt" tokens, of "cached" tokens among them, and of "preemptions"
    """

    def __init__(self, num_draft_tokens: int) -> None:
        self.finished: Counter[str] = Counter()
        self.latency = {name: Histogram(_LATENCY_S) for name in _LATENCIES}
        self.sizes = {name: Histogram(_TOKENS) for name in ("prompt", "output")}
        self.acceptance = Histogram(_ACCEPTANCE)
        self.guides = GuideCounts()
        self.adapters: dict[str, Counter[str]] = {}
        self.accepted = {name: [0] * (num_draft_tokens + 1) for name in ("all", "guided")}
        self.draft_tokens = 0
        self.prompts: Counter[str] = Counter(prompt=0, cached=0, preemptions=0)

    def add(self, request: Request) -> None:
        """Count a request that has ended."""
        metrics, guide = request.metrics, request.params.guide
        is_guided, first_s = guide is not None, metrics.time_to_first_token_s
        is_cached = metrics.is_compile_cached
        self.finished[str(request.finish_reason)] += 1
        self.prompts.update(
            prompt=metrics.prompt_tokens,
            cached=metrics.num_cached,
            preemptions=metrics.num_preemptions,
        )
        for name, value_s, has_value in (
            ("queue", metrics.queue_s, metrics.queue_s > 0),
            ("compile", metrics.compile_s, is_guided and not is_cached),
            ("compile_cached", metrics.compile_s, is_guided and is_cached),
            ("prefill", first_s - metrics.queue_s, metrics.output_tokens > 0),
            ("ttft", first_s, metrics.output_tokens > 0),
            ("decode", metrics.total_s - first_s, metrics.output_tokens > 0),
            ("tpot", metrics.tpot_s, metrics.output_tokens > 1),
            ("e2e", metrics.total_s, True),
        ):
            if has_value:
                self.latency[name].observe(value_s)
        self.sizes["prompt"].observe(metrics.prompt_tokens)
        self.sizes["output"].observe(metrics.output_tokens)
        if metrics.num_iterations:
            self.acceptance.observe(metrics.acceptance_length)
        if guide is not None:
            self.guides.add(guide, metrics)
        if request.spec.adapter:
            name = str(request.params.lora)
            self.adapters.setdefault(name, Counter()).update(_gained(metrics))
        for accepted, count in enumerate(metrics.accepted_histogram):
            self.accepted["all"][accepted] += count
            self.accepted["guided"][accepted] += count * is_guided
        self.draft_tokens += sum(metrics.drafts_proposed.values())

    def copies(self) -> dict[str, Any]:
        """Copies of all counts as of now, by name."""
        return {
            "finished": dict(self.finished),
            "prompts": dict(self.prompts),
            "accepted": {name: list(counts) for name, counts in self.accepted.items()},
            "draft_tokens": self.draft_tokens,
            "latency": {name: histogram.copy() for name, histogram in self.latency.items()},
            "sizes": {name: histogram.copy() for name, histogram in self.sizes.items()},
            "acceptance": self.acceptance.copy(),
            "guides": {name: dict(counts) for name, counts in self.guides.by_guide.copy().items()},
            "adapters": {name: dict(counts) for name, counts in self.adapters.copy().items()},
        }


@dataclass(frozen=True)
class EngineStats:
    """Counts and times since the engine started, and its present state. Times in seconds.

    iterations:        iterations of the step, prefills included
    output_tokens:     tokens given to requests
    step_s:            time in iterations
    grammar_s:         time that callbacks took on the grammar stream
    grammar_exposed_s: the part of it that the forward stream waited for; the rest was hidden behind
                       the models. None on a GPU, where only a timeline shows it
    grammar:           the executor's counters: fills, accepts, rollbacks, held slots …
    num_waiting:       requests that wait now, for their grammar or for a slot
    num_running:       requests that hold a slot now
    max_batch_size:    number of slots
    num_pages_used:    pages of the KV cache that requests hold now
    num_pages:         pages in all
    finished, latency, sizes, accepted, draft_tokens, prompts, acceptance: counts of ended requests,
                       as in RequestCounts
    guides, adapters:  counts of ended requests by guide, as in GuideCounts, and by LoRA adapter
    transfers:         counts by the names of TRANSFERS
    """

    iterations: int
    output_tokens: int
    step_s: float
    grammar_s: float
    grammar_exposed_s: float | None
    grammar: Mapping[str, int]
    num_waiting: int
    num_running: int
    max_batch_size: int
    num_pages_used: int
    num_pages: int
    finished: Mapping[str, int]
    latency: Mapping[str, Histogram]
    sizes: Mapping[str, Histogram]
    accepted: Mapping[str, list[int]]
    draft_tokens: int
    prompts: Mapping[str, int]
    acceptance: Histogram
    guides: Mapping[str, Mapping[str, int]]
    adapters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    transfers: Mapping[str, float] = field(default_factory=dict)

    @property
    def grammar_hidden_s(self) -> float | None:
        """Grammar time that no iteration waited for; None where that is unknown."""
        return (
            None
            if self.grammar_exposed_s is None
            else max(0.0, self.grammar_s - self.grammar_exposed_s)
        )

    @property
    def batch_occupancy(self) -> float:
        """Share of the slots that are in use now."""
        return self.num_running / self.max_batch_size

    @property
    def prefix_hit_rate(self) -> float:
        """Share of prompt tokens whose keys were cached; 0 before there were any prompts."""
        return self.prompts["cached"] / max(1, self.prompts["prompt"])

    def as_dict(self) -> dict[str, object]:
        """All figures as a dict."""
        return {
            **asdict(self),
            "grammar_hidden_s": self.grammar_hidden_s,
            "batch_occupancy": self.batch_occupancy,
            "prefix_hit_rate": self.prefix_hit_rate,
        }


def no_transfers() -> dict[str, float]:
    """The counts of TRANSFERS in an engine that has just started."""
    return dict.fromkeys(TRANSFERS, 0)


def request_record(request: Request) -> dict[str, Any]:
    """The record of an ended request for one JSON line of a log."""
    metrics = request.metrics
    return {
        "request_id": request.request_id,
        "external_id": request.spec.external_id,
        "sample": request.sample,
        "finish_reason": request.finish_reason,
        "stop_reason": request.stop_reason,
        "error": None if request.error is None else str(request.error),
        "lora": request.params.lora,
        "guide": request.params.guide and request.params.guide.kind,
        "guide_hash": request.params.guide and _guide_hash(request.params.guide),
        **asdict(metrics),
        "tpot_s": metrics.tpot_s,
        "acceptance_length": metrics.acceptance_length,
    }
