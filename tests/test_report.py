"""The README's GPU figures: what each kind of record becomes, and that they are never stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report

GPU = {"gpu": "NVIDIA H200"}


def iteration_row(mode: str, batch_size: int, median_ms: float, **more: Any) -> dict[str, Any]:
    return {"mode": mode, "batch_size": batch_size, "median_ms": median_ms, "p99_ms": 2 * median_ms, "held": 0,
            "late_draft_rows": 7, "tokens_per_s": 100 * median_ms, **more}


def write(root: Path, name: str, result: Any, *, hardware: dict[str, str] = GPU, **more: Any) -> None:
    folder = root / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    record = {"commit": "abc", "hardware": hardware, "config": {"iterations": 50, "batch": 64}, "result": result}
    (folder / f"{name}.json").write_text(json.dumps(record | more))


def measured(root: Path) -> dict[str, tuple[str, str, str]]:
    """Batch, value and command of each line."""
    rows = [line.strip("| ").split(" | ") for line in report.table(report.load_records(
        root / "benchmarks" / "results")).splitlines()[2:]]
    return {what: (size, value, command) for what, size, value, _, command in rows}


def test_the_readme_is_what_the_results_give() -> None:
    report.main(["--check"])


def test_iteration(tmp_path: Path) -> None:
    write(tmp_path, "iteration", [
        iteration_row("unguided", 1, 5.0, floor_ms=4.0), iteration_row("guided", 1, 5.5, floor_ms=4.0),
        iteration_row("unguided", 64, 120.0, floor_ms=60.0), iteration_row("two models", 1, 2.75)])
    lines = measured(tmp_path)
    assert lines["iteration unguided, ms: median (p99)"][:2] == ("1 / 64", "5.00 (10.00) / 120 (240)")
    assert lines["guided ÷ unguided"][:2] == ("1", "1.10")
    assert lines["tokens/s, one model ÷ two models"][1] == "2.00"
    assert "4.00 (1.25) / 60.00 (2.00)" in [value for _, value, _ in lines.values()]
    command = lines["iteration unguided, ms: median (p99)"][2]
    assert command == "`python -m benchmarks.iteration --batches 1,64 --modes 'unguided,guided,two models' " \
                      "--iterations 50`"
    assert lines["guided ÷ unguided"][2] == "the same"


def test_kernels(tmp_path: Path) -> None:
    rows = [{"kernel": "masked_argmax", "shape": f"{n} × 128k, bfloat16, {share} allowed", "us": 1.0,
             "against": {"apply + argmax": {"us": 2.0, "ratio": 0.5 + n / 1000}}}
            for n in (4, 64) for share in ("0.1%", "90.0%")]
    write(tmp_path, "kernels_masks", [*rows, {"kernel": "rms_norm", "shape": "4 tokens", "us": 1.0}],
          command="python -m benchmarks.kernels --only mask")
    assert measured(tmp_path) == {
        "time of masked_argmax ÷ apply + argmax, 128k, bfloat16": (
            "4 / 64 rows", "0.1% allowed: 0.50 / 0.56; 90% allowed: 0.50 / 0.56",
            "`python -m benchmarks.kernels --only mask`")}


@pytest.mark.parametrize("result", [
    [{"name": "native, empty", "batch_size": 4, "median_us": 17.25, "count": 9}],
    {"native, empty": {"batch_size": 4, "median_us": 17.25, "count": 9}}])
def test_callbacks(tmp_path: Path, result: Any) -> None:
    write(tmp_path, "callbacks", result)
    assert measured(tmp_path)["callback: native, empty"][:2] == ("4", "median 17.25 µs")


def test_soak_and_equality(tmp_path: Path) -> None:
    phase = {"phase": "stall", "decode_iterations": 20_000, "requests": 1500, "faults": []}
    write(tmp_path, "soak", [phase | {"ms_without_prefill": {"median": 1.5, "p99": 3.0}},
                             phase | {"phase": "empty", "ms_without_prefill": {}}])
    write(tmp_path, "equality", {"one, other": {"requests": 200, "differ": 3, "share_before_difference": 0.991}})
    lines = measured(tmp_path)
    assert [value for _, value, _ in lines.values()] == [
        "20,000, 1,500, 0; 1.50 (3.00) ms", "20,000, 1,500, 0", "3 of 200; 99.1% of tokens before"]


def test_records_of_a_cpu_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 5.0)], hardware={"cpu": "some"})
    assert measured(tmp_path) == {}


def test_stale_figures_are_found(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    write(tmp_path, "soak", [])
    with pytest.raises(SystemExit, match=r"README\.md: not what"):
        report.main(["--check"], root=tmp_path)
    report.main([], root=tmp_path)
    report.main(["--check"], root=tmp_path)
    assert readme.read_text().startswith("before\n") and readme.read_text().endswith("\nafter\n")
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 5.0)])
    with pytest.raises(SystemExit, match=r"README\.md and docs/iteration\.svg"):
        report.main(["--check"], root=tmp_path)


def test_a_readme_without_markers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing\n")
    write(tmp_path, "soak", [])
    with pytest.raises(SystemExit, match="needs the lines"):
        report.main([], root=tmp_path)


def test_the_plot_names_its_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "README.md").write_text(f"{report.BEGIN}{report.END}")
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 5.0), iteration_row("guided", 1, 5.0, floor_ms=4.0)])
    report.main([], root=tmp_path)
    report.main(["--check"], root=tmp_path)
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 6.0)])
    with pytest.raises(SystemExit, match=r"README\.md and docs/iteration\.svg"):
        report.main(["--check"], root=tmp_path)
