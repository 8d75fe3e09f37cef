"""Owns outputs that are written part by part, and random contents of parts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from benchmarks.guides.random_json import WORDS, json_parts
from specguide.guided.reading import OutputForm, Part


@dataclass
class Written:
    """An output that is being written.

    form:  what is known of it before
    parts: with the bytes of each, in order
    reasoning, text, calls: what a caller reads
    """

    form: OutputForm
    parts: list[tuple[Part, bytes]] = field(default_factory=list)
    reasoning: str = ""
    text: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        """The whole output."""
        return b"".join(data for _, data in self.parts)

    def add(self, part: Part, data: bytes) -> None:
        """Add the next bytes."""
        if not data:
            return
        if self.parts and self.parts[-1][0] == part:
            data = self.parts.pop()[1] + data
        self.parts.append((part, data))


def random_text(rng: random.Random, end: bytes) -> str:
    """Random text to be followed by a mark, which does not occur earlier."""
    while True:
        text = "".join(rng.choices(WORDS, k=rng.randrange(12)))
        if (text.encode() + end).find(end) == len(text.encode()):
            return text


def written_json(made: Written, place: Part, value: Any, rng: random.Random) -> str:
    """Write a value; returns its text."""
    spaces = rng.choice((("", " "), ("",), ("", " ", "\n  ")))
    data = b""
    for part, text in json_parts(place, place.path or "", value, spaces, rng):
        made.add(part, text.encode())
        data += text.encode()
    return data.decode()
