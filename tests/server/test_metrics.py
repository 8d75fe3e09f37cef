"""What Prometheus is told: documented, the same by vLLM's names, and drawn by the dashboard."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from live_server import small_server
from lora_adapters import adapter
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from specguide.config import EngineConfig
from specguide.engine.serving.served import EngineHealth
from specguide.engine.setup.target_folder import target_folder
from specguide.engine.stats import GuideCounts
from specguide.errors import EngineError, InvalidParams
from specguide.guide import Guide
from specguide.request_records import RequestMetrics
from specguide.server.config import COUNTS_FOLDER, ServerConfig
from specguide.server.http.metrics import AnswerCounts, EngineCollector, StatusCounts

DOCS = Path(__file__).parents[2] / "docs"
SUFFIX = re.compile(r"_(total|bucket|count|sum|created)$")


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory):
    """The families of metrics by name, after some requests."""
    folder = adapter(tmp_path_factory.mktemp("adapter"), target_folder(None))
    server = small_server((), lora_modules=(f"sql={folder}",), metrics_names="vllm")
    body = {"model": "small", "prompt": "The bridge", "max_tokens": 12}
    with httpx.Client(base_url=f"{server.url}/v1") as client:
        client.post("/completions", json=body).raise_for_status()
        for _ in range(2):
            client.post("/completions", json={**body, "guided_choice": ["left", "right"]})
        client.post("/completions", json={**body, "model": "sql", "ignore_eos": True})
        assert client.post("/completions", json={**body, "max_tokens": -1}).status_code == 400
        assert client.post("/completions", json={"prompt": "x" * 300_000}).status_code == 413
        assert client.get("/nowhere/at/all").status_code == 404
    text = httpx.get(f"{server.url}/metrics").text
    server.stop()
    return {family.name: family for family in text_string_to_metric_families(text)}


def rows():
    text = (DOCS / "operating.md").read_text()
    return [
        re.findall(r"`((?:specguide_|vllm:)\w+)`", line)
        for line in text.splitlines()
        if line.startswith("| `specguide_")
    ]


def samples(families):
    """The labels of each name that Prometheus stores."""
    return {one.name: set(one.labels) for family in families.values() for one in family.samples}


def values(family):
    """The samples of a family without vLLM's own labels."""
    own = ("model_name", "engine")
    return [
        (
            sample.name.removeprefix(family.name),
            [value for key, value in sample.labels.items() if key not in own],
            sample.value,
        )
        for sample in family.samples
    ]


def test_what_is_documented_is_exported_and_the_reverse(families):
    documented = {name for names in rows() for name in names}
    exported = {name for name in families if not name.endswith("_created")}
    assert {SUFFIX.sub("", name) for name in documented} == exported
    told = samples(families)
    assert all(name in told or f"{name}_bucket" in told for name in documented)


def test_values_by_vllms_names_are_ours(families):
    pairs = [[SUFFIX.sub("", name) for name in names] for names in rows() if len(names) == 2]
    assert len(pairs) > 10
    for ours, vllm in pairs:
        assert values(families[ours]) == values(families[vllm]), ours


def test_requests_are_counted(families):
    counts = {
        (sample.name, *dict(sorted(sample.labels.items())).values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert counts["specguide_e2e_seconds_count",] == 4
    assert (
        counts["specguide_request_prompt_tokens_sum",] == counts["specguide_prompt_tokens_total",]
    )
    assert counts["specguide_request_output_tokens_count",] == 4
    parts = ("queue", "prefill", "decode")
    whole = sum(counts[f"specguide_{part}_seconds_sum",] for part in parts)
    assert whole == pytest.approx(counts["specguide_e2e_seconds_sum",])
    assert counts["specguide_compile_seconds_count",] == 1
    assert counts["specguide_compile_cached_seconds_count",] == 1
    assert counts["specguide_http_responses_total", "200", "/v1/completions"] == 4
    assert counts["specguide_adapter_requests_total", "sql"] == 1
    assert counts["specguide_adapter_tokens_total", "sql"] == 12 - 1
    assert counts["specguide_http_responses_total", "400", "/v1/completions"] == 1
    assert counts["specguide_http_responses_total", "413", "/v1/completions"] == 1
    assert counts["specguide_http_responses_total", "404", "other"] == 1
    places = [one.value for one in families["specguide_accepted_at_position"].samples]
    assert places == sorted(places, reverse=True)
    assert sum(places) == counts["specguide_accepted_draft_tokens_total",] > 0
    assert counts["specguide_draft_tokens_total",] >= sum(places)
    (guide,) = families["specguide_guide_requests"].samples
    assert guide.value == 2 and re.fullmatch("[0-9a-f]{8}", guide.labels["guide"])


def test_guides_are_bounded_and_the_most_used_stay():
    counts, metrics = GuideCounts(), RequestMetrics(accepted_histogram=[1, 2])
    for number in range(100):
        counts.add(Guide(regex="often"), metrics)
        counts.add(Guide(regex=f"a{number}"), metrics)
    assert len(counts.by_guide) == 21
    assert max(one["requests"] for name, one in counts.by_guide.items() if name != "other") == 100
    assert sum(one["requests"] for one in counts.by_guide.values()) == 200
    assert sum(one["tokens"] for one in counts.by_guide.values()) == 200 * 5


def test_the_dashboard_draws_what_is_exported(families):
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    assert dashboard["schemaVersion"] >= 36 and dashboard["uid"] and dashboard["title"]
    panels, told = dashboard["panels"], samples(families)
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert {"type", "title", "gridPos", "targets", "datasource"} <= panel.keys()
        for target in panel["targets"]:
            names = re.findall(r"specguide_\w+", target["expr"])
            assert names and target["expr"].count("(") == target["expr"].count(")")
            assert told.keys() >= set(names), names
            labels = {*re.findall(r"by \((\w+)\)", target["expr"])}
            labels |= {*re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))}
            assert all(labels <= told[name] for name in names), target


def test_figures_of_an_engine_that_does_not_answer_are_left_out():
    """Any front may be asked, and each has old ones of another time."""
    gone = SimpleNamespace(
        stats=lambda: None, config=EngineConfig(), health=EngineHealth(EngineError("gone"))
    )
    (healthy,) = EngineCollector(gone).collect()
    assert healthy.name == "specguide_healthy" and healthy.samples[0].value == 0


def test_unknown_names():
    with pytest.raises(
        InvalidParams, match="metrics_names must be one of specguide, vllm; found 'x'"
    ):
        ServerConfig("small", metrics_names="x")


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_there_is_not_is_refused(port):
    with pytest.raises(InvalidParams, match=f"port must be 0 to 65535, found {port}"):
        ServerConfig("small", port=port)


async def answer(_, __, send):
    await send({"type": "http.response.start", "status": 200})


def sent_by(counts: StatusCounts) -> list:
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(counts({"type": "http"}, None, send))
    return sent


def test_counts_of_several_processes_have_their_room_before_they_are_written(tmp_path, monkeypatch):
    monkeypatch.setenv(COUNTS_FOLDER, str(tmp_path))
    assert sent_by(StatusCounts(answer, AnswerCounts(CollectorRegistry())))
    (file,) = tmp_path.iterdir()
    assert file.name == f"counter_{os.getpid()}.db"
    assert file.stat().st_blocks * 512 >= file.stat().st_size > 0


def test_a_process_without_room_for_its_counts_answers(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv(COUNTS_FOLDER, str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert sent_by(StatusCounts(answer, AnswerCounts(CollectorRegistry())))
    assert not list(tmp_path.iterdir()) and "not counted" in caplog.text
