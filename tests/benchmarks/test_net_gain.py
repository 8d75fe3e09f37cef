"""The net gain: acceptance lengths joined with iteration times."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.net_gain import iteration_times, markdown, rows


def iterations(**modes: float) -> dict[str, Any]:
    return {
        "command": "python -m benchmarks.iteration",
        "hardware": {"cpu": "x", "gpu": "NVIDIA H200"},
        "config": {"num_draft_tokens": 3},
        "result": [
            {"mode": mode.replace("_", " "), "batch_size": batch, "median_ms": ms * scale}
            for batch, scale in ((1, 1), (64, 2))
            for mode, ms in modes.items()
        ],
    }


def accepted(
    drafter: str, num_draft_tokens: int, num_forced: int, length: float, **more: Any
) -> dict[str, Any]:
    return {
        "set_name": "bfcl",
        "backend": "auto",
        "drafter": drafter,
        "num_draft_tokens": num_draft_tokens,
        "num_forced": num_forced,
        "guided_drafts": True,
        "acceptance_length": length,
        "window": num_draft_tokens + num_forced,
        **more,
    }


TIMES = iterations(
    plain_guided=4.0, guided=5.0, window_4=6.0, window_8=8.0, ngram_4=5.0, tree_60=10.0
)


def test_times_by_window() -> None:
    times = iteration_times(TIMES)
    assert list(times) == [1, 64] and times[64].plain_ms == 8
    assert times[1].at("window", 3) == (5, True) and times[1].at("window", 6) == (7, False)
    assert (
        times[1].at("window", 9) is None
        and times[1].at("window", 2) is None
        and times[1].at("suffix", 1) is None
    )
    assert times[1].at("ngram", 1) == (4.25, False)


def test_gain_is_acceptance_times_iteration_rate() -> None:
    records = [
        accepted("eagle3", 3, 0, 2.5),
        accepted("eagle3", 3, 5, 3.2),
        accepted("eagle3", 3, 5, 3.2),
        accepted("eagle3", 3, 0, 1.0, guided_drafts=False),
        accepted("plain", 0, 0, 1.0),
        accepted("ngram", 8, 0, 2.0),
        accepted("grammar", 0, 8, 1.5),
        accepted("eagle3_tree", 6, 0, 4.0, window=59),
    ]
    assert list(rows(records, iteration_times(TIMES))) == [
        ["bfcl", "eagle3", "3", "0", "2.50", "5.00", "500", "2.00", "10.00", "16,000", "2.00"],
        ["bfcl", "eagle3", "8", "5", "3.20", "8.00", "400", "1.60", "16.00", "12,800", "1.60"],
        ["bfcl", "ngram", "8", "0", "2.00", *"–" * 6],
        ["bfcl", "grammar", "8", "8", "1.50", *"–" * 6],
        [
            "bfcl",
            "eagle3_tree",
            "59",
            "0",
            "4.00",
            "10.00",
            "400",
            "1.60",
            "20.00",
            "12,800",
            "1.60",
        ],
    ]
    page = markdown([{"command": "specguide bench acceptance", "result": records}], TIMES)
    assert (
        "H200" in page
        and "4.00 ms at batch 1, 8.00 ms at batch 64" in page
        and page.count("\n| bfcl") == 5
    )


def test_records_are_put_together_by_data_set() -> None:
    others = [accepted("eagle3", 3, 0, 2.0, set_name="extraction"), accepted("eagle3", 3, 0, 2.5)]
    more = [accepted("eagle3_small_tree", 4, 0, 3.0, window=15, set_name="extraction")]
    page = markdown(
        [{"command": "one", "result": others}, {"command": "other", "result": more}], TIMES
    )
    assert (
        page.index("extraction | eagle3 ")
        < page.index("extraction | eagle3_small_tree")
        < page.index("bfcl")
    )
    assert "`one` and `other`" in page


def test_times_without_plain_decoding() -> None:
    with pytest.raises(SystemExit, match="plain guided"):
        iteration_times(iterations(guided=5.0))
