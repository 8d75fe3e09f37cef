"""What every benchmark shares: records that are kept, and what is said where there is no GPU."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

from benchmarks import common

GPU_BENCHMARKS = {
    "callbacks": 1,
    "float8_products": 1,
    "float8_tiles": 1,
    "int4_tiles": 1,
    "iteration": 1,
    "kernels": 1,
    "library_products": 1,
    "mixed_iterations": 1,
    "passes": 1,
    "rank_sums": 2,
}


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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", GPU_BENCHMARKS)
def test_what_needs_a_gpu_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    with pytest.raises(SystemExit, match=f"needs {GPU_BENCHMARKS[name]} CUDA device"):
        import_module(f"benchmarks.{name}").main()


@pytest.mark.parametrize("name", ["executor", "kernels", "loading", "replicas", "spans"])
def test_help_has_the_whole_description(name: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    module = import_module(f"benchmarks.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        module.main()
    assert module.__doc__ in capsys.readouterr().out
