"""Owns the groups of tasks that are measured apart: of known kinds, and left out of training."""

from __future__ import annotations

from random import Random

from training.data import chat, kinds_test, tasks
from training.data.procedural import procedural_kind
from training.data.semantic import semantic_kind

SAMPLERS: dict[str, tasks.Sampler] = {
    "known kinds": lambda r: tasks.extraction_task(r, r.choice(tasks.KNOWN_KINDS)),
    "known: everyday prose": lambda r: tasks.extraction_task(r, semantic_kind(r)),
    "known: composed schemas": lambda r: tasks.extraction_task(r, procedural_kind(r)),
    "left-out kinds": lambda r: tasks.extraction_task(r, r.choice(tasks.LEFT_OUT_KINDS)),
    "left-out kinds, final": lambda r: tasks.extraction_task(r, r.choice(kinds_test.KINDS)),
    "left-out schemas": lambda r: tasks.extraction_task(r, procedural_kind(r, held_out=True)),
    "tool calls": lambda r: tasks.tool_choice_task(r),
    "left-out tools": lambda r: tasks.tool_choice_task(r, held_out=True),
    "free text": tasks.free_text_task,
    "odd schemas": tasks.odd_schema_task,
}
"""By name: what draws a task."""


def samples_of(group: str, seed: int, count: int) -> list[chat.Task]:
    """Fresh examples of a group of SAMPLERS; training seeds never give these."""
    r = Random(f"evaluation {seed} {group}")
    return [SAMPLERS[group](r) for _ in range(count)]
