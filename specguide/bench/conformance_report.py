"""Owns how conformance records become tables: by data set and backend, and by reason of refusal."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from specguide.bench.tables import columns, markdown_table

COUNTS = (
    "valid_taken",
    "valid_reordered",
    "valid_refused",
    "invalid_refused",
    "invalid_taken",
    "invalid_reordered",
    "texts_valid",
    "texts_invalid",
    "texts_dead_end",
    "texts_cut",
    "texts_unjudged",
)
_MOST_REFUSALS = 20


def summary(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The counts of a backend's records for each data set."""
    names = dict.fromkeys(record["set"] for record in records)
    return {
        name: _counts([record for record in records if record["set"] == name])
        for name in sorted(names)
    }


def _counts(records: list[dict[str, Any]]) -> dict[str, Any]:
    compiled = [record for record in records if "compiled_by" in record]
    times = [1e3 * record["seconds"] for record in compiled] or [0.0]
    wrong = [
        record
        for record in compiled
        if any(
            record.get(name)
            for name in ("invalid_taken", "invalid_reordered", "texts_invalid", "texts_dead_end")
        )
    ]
    return {
        "made_by": dict(Counter(record["made_by"] for record in records)),
        "schemas": len(records),
        "compiled": len(compiled),
        "refused": len(records) - len(compiled),
        "compiled_by": dict(Counter(record["compiled_by"] for record in compiled)),
        "schemas_let_by": len(wrong),
        "schemas_valid_refused": sum(1 for record in compiled if record.get("valid_refused")),
        "schemas_clean": sum(
            1 for record in compiled if record not in wrong and not record.get("valid_refused")
        ),
        **{name: sum(record.get(name, 0) for record in compiled) for name in COUNTS},
        **{f"compile_p{q}_ms": round(float(np.percentile(times, q)), 2) for q in (50, 90, 99, 100)},
    }


HEADER = (
    "set",
    "backend",
    "schemas",
    "compiled",
    "clean",
    "valid taken",
    "… reordered",
    "valid refused",
    "invalid refused",
    "invalid taken",
    "texts valid",
    "texts invalid",
    "failed",
    "cut",
)


def rows(result: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    """The table's cells, by data set, then backend."""
    found = []
    for name in sorted({name for counts in result.values() for name in counts}):
        for backend, sets in result.items():
            if name in sets:
                found.append((name, backend, *map(str, _cells(sets[name]))))
    return found


def _cells(counts: dict[str, Any]) -> tuple[int | str, ...]:
    """A row after the names of data set and backend."""
    return (
        counts["schemas"],
        _share(counts["compiled"], counts["schemas"]),
        _share(counts["schemas_clean"], counts["schemas"]),
        counts["valid_taken"],
        counts["valid_reordered"],
        counts["valid_refused"],
        counts["invalid_refused"],
        counts["invalid_taken"] + counts["invalid_reordered"],
        counts["texts_valid"],
        counts["texts_invalid"],
        counts["texts_dead_end"],
        counts["texts_cut"],
    )


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)"


def num_let_by(sets: dict[str, dict[str, Any]]) -> int:
    """Number of invalid instances that a backend accepted and of invalid texts that it wrote."""
    return sum(
        counts[name]
        for counts in sets.values()
        for name in ("invalid_taken", "invalid_reordered", "texts_invalid")
    )


def table(result: dict[str, dict[str, Any]]) -> str:
    """The counts as text in columns."""
    return "\n".join(columns([HEADER, *rows(result)]))


def markdown(
    result: dict[str, dict[str, Any]], records: dict[str, list[dict[str, Any]]], how: str
) -> str:
    """The report as a page. how: the command, and what it ran on"""
    lines = [
        "# JSON Schema conformance",
        "",
        how,
        "",
        *(f"* {backend}: made by {_makers(found)}" for backend, found in records.items()),
        "",
        "*Compiled*: the backend serves the schema. *Clean*: and takes all its valid instances, no "
        "invalid one, and all random texts drawn from its grammar that came to an end are "
        "instances (by `jsonschema`, formats included). *Reordered*: taken with its keys in "
        "another order than it was written in. *Failed*: a random text inside which the library "
        "gave up. *Cut*: one that came to no end. `bare-…`: the library given the schema as it is.",
        "",
        markdown_table(HEADER, rows(result)),
        "",
    ]
    for backend, found in records.items():
        if not backend.startswith("bare-"):
            lines += _refusals(backend, found)
    return "\n".join(lines) + "\n"


def _makers(records: list[dict[str, Any]]) -> str:
    """The makers of records, with the number of records if there are several makers."""
    counts = Counter(record["made_by"] for record in records).most_common()
    return ", ".join(f"{name} ({count})" if len(counts) > 1 else name for name, count in counts)


def _refusals(backend: str, records: list[dict[str, Any]]) -> list[str]:
    sets = sorted({record["set"] for record in records})
    counts = {
        name: Counter(
            record["refused"] for record in records if "refused" in record and record["set"] == name
        )
        for name in sets
    }
    keywords = sum(counts.values(), Counter[str]()).most_common(_MOST_REFUSALS)
    return [
        f"## What {backend} refuses, by the keyword that its error names",
        "",
        markdown_table(
            ["keyword", *sets],
            (
                [f"`{keyword}`", *(str(counts[name][keyword]) for name in sets)]
                for keyword, _ in keywords
            ),
        ),
        "",
    ]
