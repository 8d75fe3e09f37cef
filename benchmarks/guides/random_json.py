"""Owns random JSON values, and how they are written part by part."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specguide.guided.reading import Part

WORDS = (
    *("a", "name", "Zoë", "日本", "🙂", " ", "\n", '"', "\\", "{", "}", "[", "]", ",", ":", "~/"),
    *("<", "<tool", "</think", '{"name": ', "<|channel|>", "[TOOL", "\\n", "</parameter>", "\t"),
)
"""What texts are made of: what readers of JSON and of calls stumble over."""
NAMES = ("city", "n-1", "x_y", "name", "arguments")
CONSTANTS = (True, False, None)


def random_value(rng: random.Random, depth: int) -> Any:
    """A random JSON value. depth: objects and arrays in each other, at most"""
    kind = rng.randrange(6 if depth else 4)
    if kind == 0:
        return rng.choice((0, -1, 12.5, 1e30, 123456789))
    if kind == 1:
        return rng.choice(CONSTANTS)
    if kind < 4:
        return "".join(rng.choices(WORDS, k=rng.randrange(6)))
    values = [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return values
    keys = ["".join(rng.choices((*NAMES, *WORDS), k=rng.randrange(1, 3))) for _ in values]
    return dict(zip(keys, values, strict=True))


def json_parts(
    place: Part, path: str, value: Any, spaces: Sequence[str], rng: random.Random
) -> Iterator[tuple[Part, str]]:
    """A value's texts in order, each with the part that it is.

    place:  what all of them have in common
    path:   JSON pointer of the value
    spaces: of which one may stand wherever JSON takes space
    """
    if not isinstance(value, dict | list):
        yield place._replace(role="value", path=path), _scalar(value, rng)
        return
    around = place._replace(role="punctuation", path=path)
    is_object = isinstance(value, Mapping)
    yield around, "{" if is_object else "["
    for number, item in enumerate(value):
        yield around, ("," if number else "") + rng.choice(spaces)
        step = _step(item) if is_object else str(number)
        if is_object:
            yield place._replace(role="key", path=f"{path}/{step}"), _scalar(item, rng)
            yield around, ":" + rng.choice(spaces)
        inner = value[item] if is_object else item
        yield from json_parts(place, f"{path}/{step}", inner, spaces, rng)
        yield around, rng.choice(spaces)
    yield around, "}" if is_object else "]"


def _scalar(value: Any, rng: random.Random) -> str:
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def _step(name: str) -> str:
    """In a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")
