"""Owns what Prometheus is told: the engine's figures, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from specguide.engine import ServedEngine


class EngineCollector(Collector):
    """An engine's stats as metrics named specguide_…"""

    def __init__(self, engine: ServedEngine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Called for each scrape."""
        stats = self._engine.stats()
        yield GaugeMetricFamily(
            "specguide_healthy", "1 while requests are taken", self._engine.health.is_healthy
        )
        yield GaugeMetricFamily(
            "specguide_requests_unfinished", "Requests under way", self._engine.num_unfinished
        )
        finished = CounterMetricFamily(
            "specguide_requests_finished", "Requests that have ended", labels=["reason"]
        )
        for reason, count in stats.finished.items():
            finished.add_metric([reason], count)
        yield finished
        yield CounterMetricFamily(
            "specguide_output_tokens", "Tokens generated", stats.output_tokens
        )
        yield CounterMetricFamily("specguide_iterations", "Iterations", stats.iterations)
        accepted = CounterMetricFamily(
            "specguide_accepted_drafts",
            "Iterations by how many drafts were accepted",
            labels=["requests", "accepted"],
        )
        for kind, counts in stats.accepted.items():
            for number, count in enumerate(counts):
                accepted.add_metric([kind, str(number)], count)
        yield accepted
        grammar = CounterMetricFamily(
            "specguide_grammar", "Counters of the grammar executor", labels=["counter"]
        )
        for name, count in stats.grammar.items():
            grammar.add_metric([name], count)
        yield grammar
        for name, histogram in stats.latency.items():
            family = HistogramMetricFamily(f"specguide_{name}_seconds", f"Seconds: {name}")
            buckets = [
                ("+Inf" if bound == float("inf") else str(bound), count)
                for bound, count in histogram.cumulative()
            ]
            family.add_metric([], buckets, histogram.total)
            yield family
