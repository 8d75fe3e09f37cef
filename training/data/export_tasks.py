"""Writes tasks of the generator as data sets for `specguide bench acceptance`: extraction, tools
and free text.

    python -m training.data.export_tasks --samples 128 --out FOLDER      # then: specguide bench
    acceptance --data FOLDER

All are of kinds, schemas and tools left out of training. The built-in sets were made with the
defaults.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from training.data import chat
from training.data.groups import samples_of

GROUPS = {
    "extraction": ("left-out kinds, final", "left-out schemas"),
    "tools": ("left-out tools",),
    "free_text": ("free text",),
}
"""Names of groups.SAMPLERS for each set, taken in turn."""


def record(task: chat.Task, name: str) -> dict[str, Any]:
    """A task as the benchmark reads it: messages and schema, or a question and tools."""
    messages = chat.messages_of(task)
    if task.tools:
        return {"id": name, "question": messages, "tools": list(task.tools)}
    return {
        "id": name,
        "messages": messages,
        **({"schema": json.loads(task.schema)} if task.schema else {}),
    }


def records(name: str, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """`count` tasks of a data set. Of tools, those that end in a call."""
    groups = [samples_of(group, seed, 3 * count) for group in GROUPS[name]]
    asked = [
        task
        for task in chain.from_iterable(zip(*groups, strict=True))
        if not task.tools or task.answer.startswith(chat.CALL_START)
    ]
    for number, task in enumerate(asked[:count]):
        yield record(task, f"{name}-{number}")


def main() -> None:
    """Write one file for each data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("specguide/assets/tasks"), help="folder")
    parser.add_argument("--samples", type=int, default=32, help="tasks a data set")
    parser.add_argument("--seed", type=int, default=4242)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name in GROUPS:
        lines = [
            json.dumps(one, ensure_ascii=False) for one in records(name, args.seed, args.samples)
        ]
        (args.out / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{args.out / name}.jsonl: {len(lines)} tasks")


if __name__ == "__main__":
    main()
