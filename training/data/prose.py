"""Fills the prose and summary templates of a kind (their notation: `training.data.records`)."""

from __future__ import annotations

import re
from functools import lru_cache
from random import Random

from training.data.records import Node, Record

Piece = tuple[str, str, str]  # (what, first, second): text | slot | choice | rows, or "[" and "]"
TOKEN = re.compile(
    r"\{([\w.]+)\?([^:{}]*):([^{}]*)\}|\{([\w.]+): ((?:[^{}]|\{\w+\})*)\}|\{([\w.]+)\}|(\[)|(\])"
)


@lru_cache(maxsize=4096)
def parse(template: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    end = 0
    for match in TOKEN.finditer(template):
        if match.start() > end:
            pieces.append(("text", template[end : match.start()], ""))
        end = match.end()
        test, yes, no, rows, row, slot, left, _ = match.groups()
        if test:
            pieces.append(("choice", test, f"{yes}\0{no}"))
        elif rows:
            pieces.append(("rows", rows, row))
        elif slot:
            pieces.append(("slot", slot, ""))
        else:
            pieces.append(("[" if left else "]", "", ""))
    if end < len(template):
        pieces.append(("text", template[end:], ""))
    return tuple(pieces)


def join_list(r: Random, items: list[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    roll = r.random()
    if roll < 0.4:
        return ", ".join(items)
    return ", ".join(items[:-1]) + (" and " if roll < 0.8 else ", and ") + items[-1]


def _fill(r: Random, piece: Piece, names: dict[str, Node]) -> str | None:
    what, first, second = piece
    node = names[first]
    if what == "rows":
        keys = [child.spec.name for child in node.children]
        shown = [
            _row(second, dict(zip(keys, (value.text for value in row), strict=True)))
            for row in node.rows
        ]
        return join_list(r, shown) if shown else None
    if node.spec.shape == "list":
        return join_list(r, [value.text for value in node.values]) if node.values else None
    if node.value is None:
        return None
    if what == "choice":
        return second.split("\0")[node.value.json != "true"]
    return node.value.text


def _row(template: str, texts: dict[str, str]) -> str:
    for key, text in texts.items():
        template = template.replace("{" + key + "}", text)
    return template


def fill(r: Random, template: str, record: Record, told: set[str] | None = None) -> str:
    """`template` with the record's values, bracketed parts only if whole; `told` collects the names
    used."""
    names = record.by_name()
    out: list[str] = []
    marks: list[int] = []
    dropped = False
    for piece in parse(template):
        if piece[0] == "text":
            out.append(piece[1])
        elif piece[0] == "[":
            marks.append(len(out))
            dropped = False
        elif piece[0] == "]":
            start = marks.pop()
            if dropped:
                del out[start:]
            dropped = False
        else:
            text = _fill(r, piece, names)
            if text is None:
                dropped = bool(marks)
            elif told is not None:
                told.add(piece[1])
            out.append(text if text is not None else "" if marks else "unknown")
    return "".join(out)
