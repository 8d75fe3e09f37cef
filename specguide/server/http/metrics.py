"""Owns the metrics for Prometheus: the engine's figures, read at each scrape, and counts of HTTP
answers by status."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specguide.engine import ServedEngine
from specguide.engine.stats import TRANSFERS, EngineStats, Histogram
from specguide.server.config import COUNTS_FOLDER
from specguide.server.http.figures import FIGURES, SIZES, TIMES

_ENGINE = "0"  # vLLM's label; here there is only one engine
_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
_COUNTS_BYTES = 1 << 18
"""Size of a process's file of counts, in bytes; enough for all routes with all status codes."""
_OTHER = "other"
_SENT_STATUS = "specguide.sent_status"
_LOGGER = logging.getLogger(__name__)


class EngineCollector(Collector):
    """An engine's stats as metrics named specguide_…

    names: "vllm": also under vLLM's names, where they mean the same
    """

    def __init__(self, engine: ServedEngine, names: str = "specguide", model: str = "") -> None:
        self._engine = engine
        self._has_vllm_names = names == "vllm"
        self._vllm_labels = {"model_name": model, "engine": _ENGINE}

    def collect(self) -> Iterator[Metric]:
        """The metrics of one scrape."""
        yield GaugeMetricFamily(
            "specguide_healthy",
            "1 while the server takes requests, else 0",
            self._engine.health.is_healthy,
        )
        stats = self._engine.stats()
        spec = self._engine.config.spec
        if stats is None:
            return
        synthetic = None if spec is None else spec.synthetic_acceptance
        yield GaugeMetricFamily(
            "specguide_requests_unfinished",
            "Requests under way",
            stats.num_running + stats.num_waiting,
        )
        yield GaugeMetricFamily(
            "specguide_synthetic_acceptance",
            "Tokens per iteration with synthetic acceptance, else 0",
            synthetic or 0,
        )
        yield _counter("requests_finished", "Requests that have ended", "reason", stats.finished)
        yield _accepted(stats)
        yield _counter("grammar", "Counters of the grammar executor", "counter", stats.grammar)
        yield from _by_label("guide", "by a hash of the guide", stats.guides)
        yield from _by_label("adapter", "by LoRA adapter", stats.adapters)
        yield from _transfers(stats)
        yield _histogram(
            "specguide_acceptance_length", "Tokens per iteration, of requests", stats.acceptance
        )
        yield from _figures(stats, {})
        if self._has_vllm_names:
            yield from _figures(stats, self._vllm_labels)
            yield self._vllm_success(stats)

    def _vllm_success(self, stats: EngineStats) -> Metric:
        labels = [*self._vllm_labels, "finished_reason"]
        success = CounterMetricFamily("vllm:request_success", "Requests that ended", labels=labels)
        for reason, count in stats.finished.items():
            success.add_metric([*self._vllm_labels.values(), reason], count)
        return success


def _figures(stats: EngineStats, vllm_labels: dict[str, str]) -> Iterator[Metric]:
    """Figures by our names, or, with vLLM's labels, by vLLM's."""
    names, values = [*vllm_labels], [*vllm_labels.values()]
    for figure in FIGURES:
        if name := _name(figure.name, figure.vllm, vllm_labels):
            family = _FAMILIES[figure.kind](name, figure.about, labels=names)
            family.add_metric(values, figure.read(stats))
            yield family
    yield _by_position(stats, vllm_labels)
    for times in TIMES:
        if name := _name(times.name, times.vllm, vllm_labels):
            yield _histogram(
                f"{name}_seconds", times.about, stats.latency[times.name], names, values
            )
    for size in SIZES:
        if name := _name(f"request_{size.name}_tokens", size.vllm, vllm_labels):
            yield _histogram(name, size.about, stats.sizes[size.name], names, values)


def _by_position(stats: EngineStats, vllm_labels: dict[str, str]) -> Metric:
    name = _name("accepted_at_position", "spec_decode_num_accepted_tokens_per_pos", vllm_labels)
    family = CounterMetricFamily(
        str(name),
        "Draft tokens that the target accepted, by position from 0, of requests that have ended",
        labels=[*vllm_labels, "position"],
    )
    counts = stats.accepted["all"]
    for place in range(len(counts) - 1):
        family.add_metric([*vllm_labels.values(), str(place)], sum(counts[place + 1 :]))
    return family


def _name(ours: str, vllm: str | None, vllm_labels: dict[str, str]) -> str | None:
    if not vllm_labels:
        return f"specguide_{ours}"
    return vllm and f"vllm:{vllm}"


def _counter(name: str, about: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"specguide_{name}", about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _accepted(stats: EngineStats) -> Metric:
    accepted = CounterMetricFamily(
        "specguide_accepted_drafts",
        "Iterations by number of accepted draft tokens",
        labels=["requests", "accepted"],
    )
    for kind, counts in stats.accepted.items():
        for number, count in enumerate(counts):
            accepted.add_metric([kind, str(number)], count)
    return accepted


def _by_label(
    label: str, how: str, all_counts: Mapping[str, Mapping[str, int]]
) -> Iterator[Metric]:
    """Figures of requests by a label; `tokens` divided by `iterations` is the acceptance length of
    each."""
    for what in ("requests", "iterations", "tokens"):
        counts = {name: counts.get(what, 0) for name, counts in all_counts.items()}
        yield _counter(f"{label}_{what}", f"{what.capitalize()}, {how}", label, counts)


def _transfers(stats: EngineStats) -> Iterator[Metric]:
    """Figures of prompts that one engine computes for another."""
    for what, count in stats.transfers.items():
        about = TRANSFERS[what]
        yield CounterMetricFamily(f"specguide_kv_transfer_{what}", about, count)


def _histogram(
    name: str,
    about: str,
    histogram: Histogram,
    labels: Sequence[str] = (),
    values: Iterable[str] = (),
) -> Metric:
    family = HistogramMetricFamily(name, about, labels=labels)
    buckets = [
        ("+Inf" if bound == float("inf") else str(bound), count)
        for bound, count in histogram.cumulative()
    ]
    family.add_metric(list(values), buckets, histogram.total)
    return family


class AnswerCounts:
    """Counts HTTP answers by route and status. Where several processes count, a scrape of any of
    them has the sum of all, including processes that have ended. A process without room on the disk
    counts nothing, and logs that."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = _answers(registry)

    def count(self, status: int, route: str = _OTHER) -> None:
        """Count one more answer."""
        if self._answers is not None:
            self._answers.labels(route, str(status)).inc()


def set_sent_status(scope: Scope, status: int) -> None:
    """Set the status that a request's client has really been sent, whatever the application answers
    later."""
    scope[_SENT_STATUS] = status


def sent_status(scope: Scope, start: Message) -> int:
    """The status that the client is sent when the application begins an answer."""
    status: int = scope.get(_SENT_STATUS, start["status"])
    return status


class StatusCounts:
    """ASGI middleware. Counts the application's answers.

    paths: of the routes, by which requests are counted that are refused before they are routed
    """

    def __init__(self, app: ASGIApp, answers: AnswerCounts, paths: Collection[str] = ()) -> None:
        self._app, self._answers, self._paths = app, answers, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answers.count(sent_status(scope, message), self._route(scope))
            await send(message)

        await self._app(scope, receive, counted if scope["type"] == "http" else send)

    def _route(self, scope: Scope) -> str:
        if "route" in scope:
            return str(getattr(scope["route"], "path", _OTHER))
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        return path if path in self._paths else _OTHER


def _answers(registry: CollectorRegistry) -> Counter | None:
    """The counter; None where this process cannot count."""
    folder = os.environ.get(COUNTS_FOLDER)
    if folder is not None:
        MultiProcessCollector(registry)
        try:
            _reserve_counts(Path(folder))
        except OSError as error:
            _LOGGER.warning("HTTP answers of this process are not counted: %s", error)
            return None
    return Counter(
        "specguide_http_responses",
        "HTTP answers",
        ["route", "code"],
        registry=None if folder is not None else registry,
    )


def _reserve_counts(folder: Path) -> None:
    """Allocate this process's file before it is written through a memory mapping: on a disk that
    has become full such a write would end the process. Others see the file once it is complete."""
    counts, part = (folder / f"counter_{os.getpid()}.{end}" for end in ("db", "part"))
    if counts.exists():  # left by a dead process with the same id
        return
    try:
        with part.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _COUNTS_BYTES)
        part.rename(counts)
    finally:
        part.unlink(missing_ok=True)
