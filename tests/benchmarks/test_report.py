"""The GPU figures of docs/results.md: what records become, and that they are never stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import report

CPU = {"cpu": "AMD EPYC", "num_cores": 2, "load": 1.5}
GPU = CPU | {"gpu": "NVIDIA H200"}


def iteration_row(
    mode: str, batch_size: int, median_ms: float, *, floor_ms: float = 4.0
) -> dict[str, Any]:
    return {
        "mode": mode,
        "batch_size": batch_size,
        "median_ms": median_ms,
        "floor_ms": floor_ms,
        "p99_ms": 2 * median_ms,
        "max_ms": 3 * median_ms,
        "p99_of_near": 1.254,
        "acceptance_length": 2.871,
        "callbacks_us": 231.8,
        "fills": 661,
        "workers_us": 167.5,
        "held": 0,
        "late_draft_rows": 7,
        "sm_mhz": 1980.0,
        "power_w": 408.38,
        "tokens_per_s": 100 * median_ms,
    }


def write(root: Path, name: str, result: Any, *, hardware: dict[str, Any] = GPU) -> None:
    """Write a record as common.emit does."""
    folder = root / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "command": f"python -m benchmarks.{name}",
        "commit": "abc",
        "date": "2026-11-21",
        "hardware": hardware,
        "config": {"iterations": 50, "batch": 64, "concurrency": 32},
        "result": result,
        "ceiling": None,
    }
    (folder / f"{name}.json").write_text(json.dumps(record))


def page_in(root: Path) -> Path:
    page = root / report.PAGE
    page.parent.mkdir(exist_ok=True)
    return page


def measured(root: Path) -> dict[str, tuple[str, str, str]]:
    """Batch, value and command of each line."""
    rows = [
        line.strip("| ").split(" | ")
        for line in report.table(report.load_records(root / "benchmarks" / "results")).splitlines()[
            2:
        ]
    ]
    return {what: (size, value, command) for what, size, value, _, command in rows}


def test_the_readme_is_what_the_results_give() -> None:
    report.main(["--check"])


def test_windows(tmp_path: Path) -> None:
    write(
        tmp_path,
        "windows",
        [
            iteration_row("guided", 1, 5.0),
            iteration_row("tree 16", 1, 5.5),
            iteration_row("tree 60", 1, 7.08),
            iteration_row("tree 60", 64, 107.3),
        ],
    )
    assert measured(tmp_path) == {
        "iteration, tree 16 / 60, ms": ("1", "5.50 / 7.08", "`python -m benchmarks.windows`"),
        "iteration, tree 60, ms": ("64", "107", "the same"),
    }


def test_adaptive(tmp_path: Path) -> None:
    write(
        tmp_path,
        "adaptive_trees",
        [
            dict(text=text, batch_size=batch, drafts="trees", of_plain=plain, of_fixed=fixed)
            for batch in (1, 8)
            for text, plain, fixed in (("hostile", 0.991, 1.5), ("friendly", 2.5, 1.123))
        ],
    )
    assert measured(tmp_path) == {
        "tokens/s, adaptive trees ÷ plain (÷ all drafts always), hostile text": (
            "1 / 8",
            "0.99 (1.50) / 0.99 (1.50)",
            "`python -m benchmarks.adaptive_trees`",
        ),
        "tokens/s, adaptive trees ÷ plain (÷ all drafts always), friendly text": (
            "1 / 8",
            "2.50 (1.12) / 2.50 (1.12)",
            "the same",
        ),
    }


def test_iteration(tmp_path: Path) -> None:
    write(
        tmp_path,
        "iteration",
        [
            iteration_row("unguided", 1, 5.0),
            iteration_row("guided", 1, 5.5),
            iteration_row("two models", 1, 2.75),
            iteration_row("host functions", 1, 6.6),
            iteration_row("unguided", 64, 120.0, floor_ms=60.0),
        ],
    )
    assert measured(tmp_path) == {
        "iteration unguided, ms: median (p99)": (
            "1 / 64",
            "5.00 (10.00) / 120 (240)",
            "`python -m benchmarks.iteration`",
        ),
        "iteration guided, ms: median (p99)": ("1", "5.50 (11.00)", "the same"),
        "floor, ms: weights, keys and values read once (unguided ÷ floor)": (
            "1 / 64",
            "4.00 (1.25) / 60.00 (2.00)",
            "the same",
        ),
        "guided: p99 of each time over the median of the 20 around it": ("1", "1.25", "the same"),
        "guided: held slots (late draft rows) in 50 iterations": ("1", "0 (7)", "the same"),
        "guided: clock of the GPU, MHz": ("1", "1980", "the same"),
        "guided ÷ unguided": ("1", "1.10", "the same"),
        "tokens/s, one model ÷ two models": ("1", "2.00", "the same"),
        "iteration, native callbacks as host functions ÷ polling": ("1", "1.20", "the same"),
        "p99 of iterations, native callbacks as host functions ÷ polling": (
            "1",
            "1.20",
            "the same",
        ),
    }


def test_a_machine_without_nvidia_smi_has_no_line_of_clocks(tmp_path: Path) -> None:
    row = iteration_row("guided", 1, 5.5)
    del row["sm_mhz"], row["power_w"]
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 5.0), row])
    assert "guided ÷ unguided" in measured(
        tmp_path
    ) and "guided: clock of the GPU, MHz" not in measured(tmp_path)


def test_kernels(tmp_path: Path) -> None:
    rows = [
        {
            "kernel": "masked_argmax",
            "shape": f"{n} × 128k, bfloat16, {share} allowed",
            "us": 1.0,
            "gb_per_s": 82.9,
            "of_copy": 0.02,
            "against": {"apply + argmax": {"us": 2.0, "ratio": 0.5 + n / 1000}},
        }
        for n in (4, 64)
        for share in ("0.1%", "90.0%")
    ]
    alone = {
        "kernel": "rms_norm",
        "shape": "4 tokens",
        "us": 1.0,
        "gb_per_s": 82.9,
        "of_copy": 0.02,
        "against": {},
    }
    write(tmp_path, "kernels_argmax", [*rows, alone])
    assert measured(tmp_path) == {
        "time of masked_argmax ÷ apply + argmax, 128k, bfloat16": (
            "4 / 64 rows",
            "0.1% allowed: 0.50 / 0.56; 90% allowed: 0.50 / 0.56",
            "`python -m benchmarks.kernels_argmax`",
        )
    }


def test_callbacks(tmp_path: Path) -> None:
    write(
        tmp_path,
        "callbacks",
        [
            {"callback": "Python, busy", "place": "in line", "replays": 200, "us": 5222.9},
            {"callback": "kernel", "place": "forked", "replays": 200, "us": 0.08},
        ],
    )
    assert [value for _, value, _ in measured(tmp_path).values()] == ["5,223 µs", "0.08 µs"]
    assert list(measured(tmp_path)) == [
        "callback: Python, busy, in line",
        "callback: kernel, forked",
    ]


def test_soak(tmp_path: Path) -> None:
    memory = {
        share: {"allocated": 10.0, "reserved": 20.0, "device": 30.0, "rss": 522.3}
        for share in ("50%", "100%")
    }
    row = {
        "phase": "stall",
        "seconds": 20.1,
        "decode_iterations": 20_000,
        "spinners": 0,
        "of_requests": {
            "requests": 1500,
            "sampled": 500,
            "stop": 1499,
            "length": 1,
            "output_tokens": 60_000,
            "iterations": 20_050,
            "held": 3,
        },
        "held_slots": 3,
        "held_slots_of_slow_request": 3,
        "late_draft_rows": 8,
        "ms": {"num": 1, "median": 26.025, "p99": 26.025, "p99.9": 26.025, "max": 26.025},
        "ms_without_prefill": {"num": 900, "median": 1.5, "p99": 3.0, "p99.9": 3.5, "max": 4.0},
        "slowest": [{"index": 0, "ms": 4.0, "prefills": 0, "held": 0}],
        "memory_mb": memory,
        "faults": ["a fault"],
    }
    write(
        tmp_path,
        "soak",
        [row, row | {"phase": "empty", "ms_without_prefill": {"num": 0}, "faults": []}],
    )
    assert [value for _, value, _ in measured(tmp_path).values()] == [
        "20,000, 1,500, 1; 1.50 (3.00) ms",
        "20,000, 1,500, 0",
    ]


def test_equality(tmp_path: Path) -> None:
    write(
        tmp_path,
        "equality",
        {
            "one, other": {
                "requests": 200,
                "differ": 3,
                "share_differ": 0.015,
                "tokens": 10_062,
                "share_before_difference": 0.991,
                "first_differences_at": [18, 20, 64],
                "median_logit_gap": 0.08971,
                "max_logit_gap": 0.08971,
            }
        },
    )
    assert measured(tmp_path) == {
        "greedy outputs that differ: one, other": (
            "64",
            "3 of 200; 99.1% of tokens before",
            "`python -m benchmarks.equality`",
        )
    }


def test_serving(tmp_path: Path) -> None:
    row = {
        "requests": 2000,
        "guided": 0,
        "seconds": 10.2,
        "tokens_per_s": 20_000,
        "iterations": 700,
        "memory_mb": {"allocated": 10.0, "reserved": 20.0, "device": 30.0, "rss": 522.3},
        "faults": [],
    }
    write(
        tmp_path,
        "serving",
        [
            row
            | {
                "guided_share": 0.0,
                "free_tpot_ms": [0.8, 0.7, 0.9],
                "decode_ms": [1.5, 1.7],
                "decode_ratio": 1.0,
            },
            row
            | {
                "guided_share": 0.05,
                "free_tpot_ms": [0.8, 0.82, 0.9],
                "decode_ms": [1.5, 1.7],
                "decode_ratio": 1.01,
            },
            row
            | {
                "guided_share": 1.0,
                "free_tpot_ms": [],
                "decode_ms": [1.7],
                "decode_ratio": 1.1,
                "tokens_per_s": 18_000,
            },
        ],
    )
    assert measured(tmp_path) == {
        "tokens/s; 0 / 5 / 100 % of the requests guided": (
            "32",
            "20,000 / 20,000 / 18,000",
            "`python -m benchmarks.serving`",
        ),
        "iterations that only decode, ms (÷ the first, of the same round); 0 / 5 / 100 % of the "
        "requests guided": (
            "32",
            "1.60 (1.00) / 1.60 (1.01) / 1.70 (1.10)",
            "the same",
        ),
        "free requests, ms a token; 0 / 5 % of the requests guided": (
            "32",
            "0.8 / 0.82",
            "the same",
        ),
    }


def test_host(tmp_path: Path) -> None:
    write(
        tmp_path,
        "host",
        [
            {
                "batch_size": size,
                "device_us": 1532.6,
                "host_us": 401.2,
                "host_schedule_us": 33.2,
                "host_submit_us": 11.9,
                "host_launch_us": 260.0,
                "host_wait_us": 1100.0,
                "host_commit_us": 96.1,
                "costs_us": {"step.py:89 run": 44.6},
            }
            for size in (1, 4)
        ],
    )
    assert [line[:2] for line in measured(tmp_path).values()] == [
        ("1 / 4", "1,533 (401) / 1,533 (401)")
    ]


def test_records_of_a_cpu_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 5.0)], hardware=CPU)
    assert measured(tmp_path) == {}


def test_stale_figures_are_found(tmp_path: Path) -> None:
    page = page_in(tmp_path)
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    write(tmp_path, "soak", [])
    with pytest.raises(SystemExit, match=r"docs/results\.md: not what"):
        report.main(["--check"], root=tmp_path)
    report.main([], root=tmp_path)
    report.main(["--check"], root=tmp_path)
    assert page.read_text().startswith("before\n") and page.read_text().endswith("\nafter\n")
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 5.0)])
    with pytest.raises(SystemExit, match=r"docs/results\.md and docs/iteration\.svg"):
        report.main(["--check"], root=tmp_path)


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page_in(tmp_path).write_text("nothing\n")
    write(tmp_path, "soak", [])
    with pytest.raises(SystemExit, match="needs the lines"):
        report.main([], root=tmp_path)


def test_the_plot_names_its_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page_in(tmp_path).write_text(f"{report.BEGIN}{report.END}")
    write(
        tmp_path, "iteration", [iteration_row("unguided", 1, 5.0), iteration_row("guided", 1, 5.0)]
    )
    report.main([], root=tmp_path)
    report.main(["--check"], root=tmp_path)
    write(tmp_path, "iteration", [iteration_row("unguided", 1, 6.0)])
    with pytest.raises(SystemExit, match=r"docs/results\.md and docs/iteration\.svg"):
        report.main(["--check"], root=tmp_path)
