"""Owns the records of a benchmark that can be interrupted and continued: one JSON line each, in a
file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specguide.bench.settings import Setting, Tokens
from specguide.errors import InvalidParams


def whole_lines(path: Path) -> list[str]:
    """The lines of a file of records, which need not exist yet. A last line that is cut off, since
    the run ended while it was writing, is removed from the file. Raises InvalidParams where the
    file cannot be used."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole, _, cut_off = (path.read_text("utf-8") if path.exists() else "").rpartition("\n")
        if cut_off:
            path.write_text(whole + "\n" if whole else "", "utf-8")
    except (OSError, ValueError) as error:
        raise InvalidParams(
            f"cannot continue the records in {path}: {error}; choose another --output",
            param="output",
        ) from error
    return whole.split("\n") if whole else []


class Records:
    """The records of settings that were measured under the same conditions. Raises InvalidParams
    for a folder whose records were measured under different ones.

    tasks: by the name of each data set a digest of its tasks; if it has changed, the set is
           measured again
    """

    def __init__(
        self, folder: Path, conditions: Mapping[str, Any], tasks: Mapping[str, str]
    ) -> None:
        self._path = folder / "records.jsonl"
        self._conditions, self._tasks = dict(conditions), tasks
        self._lines = [*map(self._checked, whole_lines(self._path))]

    def find(self, setting: Setting) -> dict[str, Any] | None:
        """Figures of a setting; None if it was not measured."""
        line = self._line(setting)
        return None if line is None else line["figures"]

    def outputs(self, setting: Setting) -> Tokens:
        """Outputs of a setting; none if it was not measured."""
        line = self._line(setting)
        return {} if line is None else {name: tuple(ids) for name, ids in line["outputs"].items()}

    def add(self, setting: Setting, figures: dict[str, Any], outputs: Tokens) -> None:
        """Add a record, in memory and on disk."""
        tasks = self._tasks[setting.set_name]
        self._lines.append(
            {
                "conditions": self._conditions,
                "tasks": tasks,
                "figures": figures,
                "outputs": outputs,
            }
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._lines[-1]) + "\n")

    def _checked(self, line: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(line)
            found = dict(record["conditions"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidParams(
                f"{self._path} has a line that is not a record of this benchmark: choose another "
                "--output",
                param="output",
            ) from error
        wanted = self._conditions
        names = [name for name in wanted if found.get(name, ...) != wanted[name]]
        if names:
            had, asked = ({name: one.get(name) for name in names} for one in (found, wanted))
            raise InvalidParams(
                f"{self._path} has figures that were measured with {had}, not with {asked}: choose "
                "another --output",
                param="output",
            )
        return record

    def _line(self, setting: Setting) -> dict[str, Any] | None:
        wanted, tasks = asdict(setting).items(), self._tasks[setting.set_name]
        return next(
            (
                line
                for line in self._lines
                if line.get("tasks") == tasks and wanted <= line["figures"].items()
            ),
            None,
        )
