"""Records of benchmarks as benchmarks.report reads them, the lines of its table, and how it writes
numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """One file of results, as common.emit wrote it. kind: its name up to the first underscore"""

    kind: str
    content: dict[str, Any]

    @property
    def rows(self) -> list[Row]:
        """Its results; where they are named, the name is their "name"."""
        result = self.content["result"]
        named = (
            [{"name": name, **row} for name, row in result.items() if isinstance(row, dict)]
            if isinstance(result, dict)
            else []
        )
        return named or (result if isinstance(result, list) else [result])

    @property
    def gpu(self) -> str:
        return str(self.content["hardware"]["gpu"]).removeprefix("NVIDIA ")

    @property
    def command(self) -> str:
        """What was called."""
        return str(self.content["command"])


@dataclass(frozen=True)
class Line:
    """One line of the table; `measured` has one value for each of `sizes` where there are
    several."""

    what: str
    sizes: str
    measured: str
    record: Record


def load_records(folder: Path) -> list[Record]:
    """The records that were made on a GPU, by name."""
    contents = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    return [
        Record(name.split("_")[0], content)
        for name, content in contents.items()
        if "gpu" in content["hardware"]
    ]


def modes(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["mode"] for row in rows))


def batches(rows: Iterable[Row]) -> list[int]:
    return sorted({row["batch_size"] for row in rows})


def number(value: float) -> str:
    """Three digits or more."""
    return (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.3g}"
        if abs(value) < 1
        else f"{value:.2f}"
    )


def over(values: Iterable[Any]) -> str:
    return " / ".join(str(value) for value in values)


def times(row: Row) -> str:
    """Median (p99)."""
    return f"{number(row['median_ms'])} ({number(row['p99_ms'])})"
