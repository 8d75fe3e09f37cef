"""Owns the joining of several replicas' metrics into one page for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families


def with_replica(pages: Iterable[tuple[str, str]]) -> str:
    """One page from many, with the label `replica` on each sample.

    pages: names of replicas, and their pages
    """
    families: dict[str, Metric] = {}
    for name, page in pages:
        for found in text_string_to_metric_families(page):
            family = families.setdefault(
                found.name, Metric(found.name, found.documentation, found.type)
            )
            for sample in found.samples:
                labels = {**sample.labels, "replica": name}
                family.samples.append(sample._replace(labels=labels))
    registry = CollectorRegistry()
    registry.register(_Families(list(families.values())))
    return generate_latest(registry).decode()


class _Families:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Any:
        return self._families
