"""Owns the question whether a backend enforces all of a core schema, asked keyword by keyword."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.core import Core, CoreSchema
from specguide.guided.schema.keyword_table import KEYWORDS, Level


@dataclass(frozen=True)
class Unenforced:
    """A keyword that a backend would not enforce, the JSON pointer of its subschema in the original
    schema, and why."""

    keyword: str
    path: str
    reason: str


def unenforced(core: CoreSchema, backend: str) -> Iterator[Unenforced]:
    """What `backend` would not enforce of a core schema."""
    if not isinstance(core, Core):
        return
    for keyword, value in core.items():
        spend()
        row = KEYWORDS.get(keyword)
        if keyword == "not" and "type" in core:
            continue  # NO_INTEGER, for which there are rules of our own
        if row is not None:
            with at_work(keyword, core.path):
                yield from _doubts(core, keyword, backend)
        for child in _children(keyword, value):
            yield from unenforced(child, backend)


def _doubts(core: Core, keyword: str, backend: str) -> Iterator[Unenforced]:
    support = KEYWORDS[keyword].support(backend)
    if support.level in (Level.IGNORED, Level.REFUSED):
        yield Unenforced(keyword, core.path, support.level.value)
    reason = support.unless(core) if support.unless is not None else None
    if reason is not None:
        yield Unenforced(keyword, core.path, reason)


def _children(keyword: str, value: object) -> Iterator[CoreSchema]:
    if keyword in ("properties", "patternProperties", "$defs") and isinstance(value, dict):
        yield from value.values()
    elif keyword in ("anyOf", "allOf", "prefixItems") and isinstance(value, list):
        yield from value
    elif keyword in ("items", "additionalProperties") and isinstance(value, (Core, bool)):
        yield value
