"""What every benchmark shares: records that are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import common


@pytest.mark.parametrize("has_gpu", [False, True])
def test_figures_of_a_gpu_are_replaced_by_a_gpus_alone(
    has_gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(common, "RESULTS_DIR", tmp_path)
    hardware = {"cpu": "a CPU"} | ({"gpu": "B"} if has_gpu else {})
    monkeypatch.setattr(common, "provenance", lambda: {"hardware": hardware})
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"hardware": {"gpu": "A"}, "result": 1}))
    common.emit("host", {}, 2)
    common.emit("other", {}, 3)
    assert json.loads(path.read_text())["result"] == (2 if has_gpu else 1)
    assert json.loads((tmp_path / "other.json").read_text())["result"] == 3
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert ("not saved: host.json has figures of a GPU (A)" in told.err) is not has_gpu
