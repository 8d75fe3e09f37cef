"""Owns Partial: what a beginning of a JSON text says so far, that is, the value up to there, and
which parts of it are still open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from json.decoder import JSONDecoder
from typing import Any

Path = tuple[str | int, ...]
_scan_string: Callable[[str, int, bool], tuple[str, int]] = vars(JSONDecoder())["parse_string"]
_NUMBER = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class Hole:
    """Stands for a value of which nothing is known yet."""


HOLE = Hole()


@dataclass
class Partial:
    """The value of a text so far.

    value:     with HOLE for the value that must follow a key or an array's comma, and open parts as
               far as they are known
    open:      the paths of what is not closed, outermost first: containers, and the last scalar
    string:    an open string's characters so far; None if no string is open
    number:    an open number's text; the last number of a text is always open
    key:       an open key's characters; empty if a key must follow a comma
    repeats:   a key came twice in one object
    """

    value: Any = HOLE
    open: list[Path] = field(default_factory=list)
    string: str | None = None
    number: str | None = None
    key: str | None = None
    repeats: bool = False


def partial(text: str, number: Callable[[str], Any] = json.loads) -> Partial:
    """Read a beginning of a JSON text, which must be valid. number: reads its closed numbers"""
    return _Reader(text, number).read()


class _Reader:
    """One text, read from its start; `_stack` holds the open containers with their paths."""

    def __init__(self, text: str, number: Callable[[str], Any]) -> None:
        self._text = text
        self._at = 0
        self._number = number
        self._found = Partial()
        self._stack: list[tuple[Any, Path]] = []
        self._key: str | None = None

    def read(self) -> Partial:
        while self._at < len(self._text):
            self._token(self._text[self._at])
        self._found.open[:0] = [path for _, path in self._stack]
        return self._found

    def _token(self, char: str) -> None:
        if char in " \t\n\r:":
            self._at += 1
        elif char in "]}":
            self._at += 1
            self._stack.pop()
        elif char == ",":
            self._at += 1
            self._comma()
        elif char == '"':
            self._string()
        else:
            self._other(char)

    def _comma(self) -> None:
        inside, _ = self._stack[-1]
        if isinstance(inside, list):
            inside.append(HOLE)
        else:
            self._found.key = ""

    def _string(self) -> None:
        is_key = bool(self._stack) and isinstance(self._stack[-1][0], dict) and self._key is None
        try:
            string, self._at = _scan_string(self._text, self._at + 1, True)
        except ValueError:
            string = _so_far(self._text[self._at + 1 :])
            self._at = len(self._text)
            if is_key:
                self._found.key = string
            else:
                self._found.string = string
                self._found.open.append(self._put(string))
            return
        if is_key:
            inside, _ = self._stack[-1]
            self._found.repeats |= string in inside
            self._found.key = None
            self._key = string
            inside[string] = HOLE
        else:
            self._put(string)

    def _other(self, char: str) -> None:
        if char in "{[":
            self._at += 1
            value: Any = {} if char == "{" else []
            self._stack.append((value, self._put(value)))
        elif char in _LITERALS:
            word, value = _LITERALS[char]
            self._at += len(word)
            self._put(value)
        else:
            match = _NUMBER.match(self._text, self._at)
            assert match is not None and match.end() > self._at, "the text is no JSON"
            self._at = match.end()
            if self._at < len(self._text):
                self._put(self._number(match[0]))
            else:
                self._found.number = match[0]
                self._found.open.append(self._put(0))

    def _put(self, value: Any) -> Path:
        """Put a value in its place; returns its path."""
        if not self._stack:
            self._found.value = value
            return ()
        inside, path = self._stack[-1]
        if isinstance(inside, dict):
            assert self._key is not None
            inside[self._key] = value
            step: str | int = self._key
            self._key = None
        else:
            if inside and inside[-1] is HOLE:
                inside.pop()
            step = len(inside)
            inside.append(value)
        return (*path, step)


def _so_far(spelled: str) -> str:
    """The characters of an open string; an incomplete escape, or the first half of a surrogate
    pair, does not count yet."""
    for cut in range(min(6, len(spelled)) + 1):
        try:
            found, _ = _scan_string(spelled[: len(spelled) - cut] + '"', 0, True)
        except ValueError:
            continue
        return found[:-1] if "\ud800" <= found[-1:] <= "\udbff" else found
    return ""
