"""Owns the records of a benchmark that goes on where it was broken off: one JSON line for each
setting, in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specguide.bench.settings import Setting, Tokens
from specguide.errors import InvalidParams


class Records:
    """The records of settings that were measured under the same conditions. Raises InvalidParams
    for a folder whose records were measured under others."""

    def __init__(self, folder: Path, conditions: Mapping[str, Any]) -> None:
        self._path = folder / "records.jsonl"
        self._conditions = dict(conditions)
        self._lines: list[dict[str, Any]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = self._path.read_text() if self._path.exists() else ""
        except OSError as error:
            raise InvalidParams(
                f"cannot use the folder {folder}: {error}", param="output"
            ) from error
        whole, _, broken = text.rpartition("\n")
        if broken:  # the run ended while it wrote
            self._path.write_text(whole + "\n" if whole else "")
        for line in whole.splitlines():
            record = json.loads(line)
            if record["conditions"] != self._conditions:
                raise InvalidParams(
                    f"{self._path} has figures of {record['conditions']}, and {self._conditions} "
                    "are asked for: choose another --output",
                    param="output",
                )
            self._lines.append(record)

    def find(self, setting: Setting) -> dict[str, Any] | None:
        """Figures of a setting, if it was measured."""
        line = self._line(setting)
        return None if line is None else line["figures"]

    def outputs(self, setting: Setting) -> Tokens:
        """Its outputs; none where it was not measured."""
        line = self._line(setting)
        return {} if line is None else {name: tuple(ids) for name, ids in line["outputs"].items()}

    def add(self, setting: Setting, figures: dict[str, Any], outputs: Tokens) -> None:
        """Keep them, on disk too."""
        self._lines.append({"conditions": self._conditions, "figures": figures, "outputs": outputs})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._lines[-1]) + "\n")

    def _line(self, setting: Setting) -> dict[str, Any] | None:
        wanted = asdict(setting).items()
        return next((line for line in self._lines if wanted <= line["figures"].items()), None)
