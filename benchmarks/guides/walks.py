"""Owns random texts of a grammar: walks through it over a vocabulary of bytes, and the parsers that
the languages of the ready grammars have in Python, or beside it."""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import re
import sqlite3
from collections.abc import Callable
from datetime import date, datetime

import numpy as np

from specguide.guided.backends import CompiledGrammar
from specguide.tokenizer.vocabulary import Vocabulary

END = 256
VOCABULARY = Vocabulary((*(bytes([byte]) for byte in range(256)), b""), (END,))
MOST_BYTES = 20_000
_CLOSERS = frozenset(b")]}\"';\n")
_OPENERS = frozenset(b"([{")


def walk(grammar: CompiledGrammar, rng: random.Random, num_bytes: int = 60) -> str:
    """A text of the grammar. It ends as soon as it may where it has `num_bytes`; from there on
    brackets and quotes are rather closed than opened. Raises ValueError where it does not end."""
    matcher, text = grammar.matcher(), bytearray()
    row = np.zeros(VOCABULARY.num_words, np.int32)
    while len(text) < MOST_BYTES:
        matcher.fill(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[: END + 1]).tolist()
        if not allowed:
            raise ValueError(f"nothing may follow {bytes(text)!r}")
        byte = _next(allowed, rng, bytes(text[-1:]) if len(text) >= num_bytes else None)
        if not matcher.accept(byte):
            raise ValueError(f"{byte} was allowed behind {bytes(text)!r} and is refused")
        if byte == END:
            return text.decode()
        text.append(byte)
    raise ValueError(f"no end within {MOST_BYTES} bytes: {bytes(text[:200])!r} …")


def _next(allowed: list[int], rng: random.Random, last: bytes | None) -> int:
    """Mostly one of ASCII; else texts would be of rare characters.

    last: where the text is to end, the byte before; a quote behind a quote would not close
    """
    if END in allowed and (last is not None or rng.random() < 0.1 or len(allowed) == 1):
        return END
    allowed = [byte for byte in allowed if byte != END]
    plain = [byte for byte in allowed if byte < 128]
    if plain and rng.random() < 0.97:
        allowed = plain
    if last is not None:
        closing = [byte for byte in allowed if byte in _CLOSERS and byte not in last]
        if closing and rng.random() < 0.8:
            return rng.choice(closing)
        allowed = [byte for byte in allowed if byte not in (*_OPENERS, *last)] or allowed
    return rng.choice(allowed)


def _sql(text: str) -> None:
    """The names in it are of no table, which is found out behind the syntax alone."""
    try:
        sqlite3.connect(":memory:").execute("EXPLAIN " + text)
    except sqlite3.OperationalError as error:
        if not re.match("no such (table|column|function)", str(error)):
            raise


def _diff(text: str) -> None:
    """Its hunks have the lines that their heads count."""
    import unidiff

    if not unidiff.PatchSet(io.StringIO(f"{text}\n")):
        raise ValueError(text)


def _csv(text: str) -> None:
    list(csv.reader(io.StringIO(text, newline=""), strict=True))


def _yaml(text: str) -> None:
    import yaml

    yaml.safe_load(text)


def _chess(text: str) -> None:
    import chess

    is_castling = text.startswith("O-O")
    if not is_castling and not chess.SAN_REGEX.fullmatch(text):
        raise ValueError(text)


def _dot(text: str) -> None:
    import pydot

    if not pydot.graph_from_dot_data(text):
        raise ValueError(text)


def _semver(text: str) -> None:
    release, _, build = text.partition("+")
    release, _, early = release.partition("-")
    numbers = release.split(".") + [part for part in early.split(".") if part.isdecimal()]
    parts = [part for joined in (early, build) if joined for part in joined.split(".")]
    if (
        release.count(".") != 2
        or any(number != str(int(number)) for number in numbers)
        or not all(re.fullmatch("[0-9A-Za-z-]+", part, re.ASCII) for part in parts)
    ):
        raise ValueError(text)


PARSERS: dict[str, Callable[[str], object]] = {
    "arithmetic": lambda text: ast.parse(text, mode="eval"),
    "chess_move": _chess,
    "csv": _csv,
    "dot": _dot,
    "ids": json.loads,
    "iso_date": date.fromisoformat,
    "iso_datetime": datetime.fromisoformat,
    "json": json.loads,
    "measurement": json.loads,
    "python_expression": lambda text: ast.parse(text, mode="eval"),
    "semver": _semver,
    "sql_select": _sql,
    "unified_diff": _diff,
    "yaml": _yaml,
}
"""By the grammar's name: raises where a text is not of its language."""
