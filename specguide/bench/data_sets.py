"""Owns where the data sets of the acceptance benchmark come from: built in, from a folder, or from
the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from specguide.bench.tasks import Task, task_of
from specguide.errors import InvalidParams

BUILT_IN = Path(__file__).parent.parent / "assets" / "tasks"
"""Made by `python -m training.data.export_tasks`, except chat, which has everyday questions for any
model."""

HUB = "hub:"
_SHORT = {
    "json_mode_eval": "hub:NousResearch/json-mode-eval",
    "jsonschemabench": "hub:epfl-dlab/JSONSchemaBench",
}


def built_in() -> list[str]:
    """Names of the data sets that need neither a folder nor a network."""
    return sorted(path.stem for path in BUILT_IN.glob("*.jsonl"))


def load_tasks(
    name: str, folder: Path | None, limit: int, max_chars: int | None = None
) -> list[Task]:
    """At most `limit` tasks of a data set: every n-th one, with the largest n that gives this many;
    the first `limit` ones if the set has less than twice as many.

    name:      name of `folder`/NAME.jsonl, of a built-in set, or "hub:REPOSITORY", followed by
               ":SPLIT" and ":CONFIG" if the hub has several
    max_chars: tasks with more characters are left out
    Raises InvalidParams if there is no such set, or its records ask nothing.
    """
    tasks = []
    for number, record in enumerate(_records(name, folder)):
        try:
            task = task_of(record, number)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidParams(
                f"record {number} of {name} has an unknown format: it should have messages, a "
                f"question with tools, or a schema: {error!r}",
                param="sets",
            ) from error
        if task is not None and (max_chars is None or task.num_chars <= max_chars):
            tasks.append(task)
    if limit < 1 or not tasks:
        raise InvalidParams(
            f"{limit} of the {len(tasks)} tasks of {name} are asked for: both numbers must be at "
            "least 1",
            param="samples",
        )
    if len({task.name for task in tasks}) < len(tasks):
        raise InvalidParams(
            f"two records of {name} have the same id: give each its own", param="sets"
        )
    step = max(1, len(tasks) // limit)
    return tasks[::step][:limit]


def _records(name: str, folder: Path | None) -> Iterable[Mapping[str, Any]]:
    if name.startswith(HUB):
        return _of_hub(name)
    for place in (folder, BUILT_IN):
        if place is not None and (path := place / f"{name}.jsonl").exists():
            return read_records(path, "data")
    if name in _SHORT:
        return _of_hub(_SHORT[name])
    raise InvalidParams(
        f"there is no data set {name}: put {name}.jsonl into the folder of --data, or use one of "
        f"{', '.join(built_in())}, or hub:REPOSITORY",
        param="sets",
    )


def read_records(path: Path, param: str | None = None) -> Iterator[Mapping[str, Any]]:
    """The records of a JSON Lines file. Raises InvalidParams. param: name of the parameter with the
    file"""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _record(line, f"{path} as JSON Lines, line {number}", param)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParams(f"cannot read {path}: {error}", param=param) from error


def _record(line: str, place: str, param: str | None) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidParams(f"cannot read {place}: {error}", param=param) from error


def _of_hub(name: str) -> Iterable[Mapping[str, Any]]:
    """Raises InvalidParams without the `datasets` library, without a network, and if the hub does
    not have it."""
    try:
        import datasets
    except ModuleNotFoundError as error:
        raise InvalidParams(
            f'{name} comes from the Hugging Face hub: pip install "specguide[hub]", or give a '
            "folder with the file as --data",
            param="sets",
        ) from error
    repository, split, config = (*name.removeprefix(HUB).split(":"), "", "")[:3]
    try:
        is_saved = any(
            Path(repository, mark).exists() for mark in ("dataset_dict.json", "dataset_info.json")
        )
        found = (
            datasets.load_from_disk(repository)
            if is_saved
            else datasets.load_dataset(repository, config or None)
        )
    except (OSError, ValueError) as error:
        raise InvalidParams(
            f"cannot load {name}: {' '.join(str(error).split())[:300]}. Check the network and "
            "the name, or give a folder with NAME.jsonl as --data",
            param="sets",
        ) from error
    if not isinstance(found, Mapping):
        return found
    chosen = split or ("test" if "test" in found else next(iter(found)))
    if chosen not in found:
        raise InvalidParams(
            f"{name} has no split {split!r}; it has {', '.join(found)}", param="sets"
        )
    records: Iterable[Mapping[str, Any]] = found[chosen]
    return records
