"""Owns the words that may stand in place of a raw text without marks: values that are recognized by
their whole text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specguide.guided.tools.arguments_form import ArgumentsForm, kind_of

NOTES = ("title", "description", "examples", "default", "$comment")
_INTEGER = "-?(0|[1-9][0-9]{0,99})"
NUMERALS = {"integer": _INTEGER, "number": rf"{_INTEGER}(\.[0-9]{{1,99}})?([eE][-+]?[0-9]{{1,2}})?"}
"""Regular expressions of numbers that are not text where any number of the kind may stand."""
MOST_OF_NUMERAL = 210
"""Most characters of any number that is not text there; those above are shorter."""
JSON_OPENERS = ('"', "[", "{")
"""The beginnings of JSON that is neither a number nor a word."""
CONSTANTS_OF: Mapping[str, tuple[str, ...]] = {"boolean": ("true", "false"), "null": ("null",)}
LISTING = frozenset(("enum", "const"))


@dataclass(frozen=True)
class Words:
    """Values that may stand in place of a text: what is written as one of them is never the text.

    listed:  as they are written
    numeral: any number of this kind, one of NUMERALS; "": none
    """

    listed: tuple[str, ...] = ()
    numeral: str = ""

    def __bool__(self) -> bool:
        return bool(self.listed or self.numeral)

    def __add__(self, other: Words) -> Words:
        """The words of both."""
        listed = tuple(dict.fromkeys((*self.listed, *other.listed)))
        kinds = {self.numeral, other.numeral}
        return Words(listed, next((kind for kind in ("number", "integer") if kind in kinds), ""))


NO_WORDS = Words()


def words_for(form: ArgumentsForm, schemas: Iterable[Any]) -> Words | None:
    """The words for all values that fit any of the schemas; None where these cannot be listed."""
    found = NO_WORDS
    for schema in schemas:
        words = _words(form, schema)
        if words is None:
            return None
        found += words
    return found


def _words(form: ArgumentsForm, schema: Any) -> Words | None:
    if not isinstance(schema, Mapping):
        return None
    kind, constraints = schema.get("type"), schema.keys() - set(NOTES) - {"type"}
    if not constraints and kind in NUMERALS:
        return Words(numeral=kind)
    if not constraints:
        names = CONSTANTS_OF.get(kind, ()) if isinstance(kind, str) else ()
        return Words(tuple(word for name in names for word in form.words(name))) if names else None
    if len(constraints) > 1 or not constraints <= LISTING:
        return None
    values = schema["enum"] if "enum" in constraints else [schema["const"]]
    fitting = [value for value in values if kind is None or _is_of(kind, value)]
    if any(isinstance(value, str | dict | list) for value in fitting):
        return None
    values_json = map(json.dumps, fitting)
    return Words(tuple(word for name in values_json for word in form.words(name)))


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value certainly has a type of JSON Schema, or one of several."""
    kinds = kind if isinstance(kind, list) else [kind]
    return kind_of(value) in kinds or (type(value) is int and "integer" in kinds)


def is_numeral(text: bytes, kind: str) -> bool:
    """Whether a text of number characters is a number of this kind, one of NUMERALS."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, int) or (kind == "number" and math.isfinite(value))


def are_apart(texts: Iterable[str]) -> bool:
    """Whether no such text is JSON or the beginning of JSON in brackets or quotes."""
    return not any(text.startswith(JSON_OPENERS) or _is_json(text) for text in texts)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
