"""Owns how instances are spelled, changed and completed, so that a grammar is tested with more of
them than are known."""

from __future__ import annotations

import copy
import json
import random
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from specguide.bench.certificate.partial import HOLE, Partial, Path

STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {"ensure_ascii": False},
    "indented": {"indent": 2, "ensure_ascii": False},
    "indented by 4": {"indent": 4, "ensure_ascii": False},
    "compact, in ASCII": {"separators": (",", ":")},
}
"""Arguments of `json.dumps`. All spellings but the last write characters without escapes."""

_SCALARS = ("", "a", "0", 0, 1, -1, 1.5, 1e-7, 100, True, False, None)
_POOL: tuple[Any, ...] = (*_SCALARS, [], {})
_MOST_LISTED = 60
_ENDS_OF_STRINGS = ("", "a", "0")
_ENDS_OF_NUMBERS = ("", "0", "1", "5", ".5")


def spelled(value: Any, style: str) -> str:
    """A value as `json.dumps` writes it; whole numbers have no decimal point."""
    return json.dumps(_whole(value), **STYLES[style])


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e300
    return int(value) if is_whole else value


def is_written(value: Any) -> bool:
    """Whether guided outputs of any schema may contain all its characters: free text has no
    four-digit escapes, and some grammars lack U+007F (docs/grammars.md)."""
    text = json.dumps(value, ensure_ascii=False).replace("\\\\", "")
    return "\\u" not in text and not any(
        one == "\x7f" or "\ud800" <= one <= "\udfff" for one in text
    )


def listed(schema: Any) -> list[Any]:
    """Values and names of properties that a schema mentions: the first of them."""
    found: list[Any] = []
    todo = deque([schema])
    while todo and len(found) < _MOST_LISTED:
        one = todo.popleft()
        if isinstance(one, Mapping):
            found += [one[key] for key in ("const", "default", "minimum", "maximum") if key in one]
            for key in ("enum", "examples", "required"):
                found += one[key] if isinstance(one.get(key), list) else []
            properties = one.get("properties")
            found += properties if isinstance(properties, Mapping) else []
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return found[:_MOST_LISTED]


def changed(instance: Any, known: list[Any], rng: random.Random) -> Any:
    """An instance with one random change: another value, or one member or item more or less."""
    value = copy.deepcopy(instance)
    paths = list(_paths(value))
    path = rng.choice(paths)
    here = _get(value, path)
    if isinstance(here, dict) and rng.random() < 0.7:
        if here and rng.random() < 0.6:
            del here[rng.choice(list(here))]
        else:
            names = [one for one in known if isinstance(one, str)] or ["a"]
            here[rng.choice(names)] = copy.deepcopy(rng.choice(_POOL))
        return value
    if isinstance(here, list) and rng.random() < 0.7:
        if here and rng.random() < 0.5:
            here.pop(rng.randrange(len(here)))
        else:
            here.append(copy.deepcopy(rng.choice([*here, *_SCALARS])))
        return value
    return _put(value, path, _another(here, known, rng))


def _another(here: Any, known: list[Any], rng: random.Random) -> Any:
    if isinstance(here, str) and here and rng.random() < 0.5:
        at = rng.randrange(len(here))
        return here[:at] + rng.choice(("", "x", "0", " ", "é", '"')) + here[at + 1 :]
    if isinstance(here, (int, float)) and not isinstance(here, bool) and rng.random() < 0.6:
        return rng.choice((here + 1, here - 1, -here, here * 10, here / 4))
    return copy.deepcopy(rng.choice([*_POOL, *known]))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _paths(one, (*path, name))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _paths(one, (*path, index))


def completed(partial: Partial, instance: Any, known: list[Any]) -> Iterator[Any]:
    """Values to which a beginning of a text can be completed: what is open is closed, and the other
    members and items of an instance are added.

    known: result of `listed`
    """
    for path, leaf in _leaves(partial, instance, known):
        value = copy.deepcopy(partial.value)
        if path is not None:
            value = _put(value, path, leaf)
        yield _grafted(value, instance, partial.open)


def _leaves(partial: Partial, instance: Any, known: list[Any]) -> Iterator[tuple[Path | None, Any]]:
    """The place that the text has reached, and what may be there; None: nothing is missing."""
    last = partial.open[-1] if partial.open else ()
    strings = [one for one in known if isinstance(one, str)]
    there = _get(instance, last)
    if partial.string is not None:
        so_far = partial.string
        others = [one for one in [there, *strings] if isinstance(one, str) and one != so_far]
        ends = [so_far + end for end in _ENDS_OF_STRINGS]
        yield from ((last, one) for one in [*others, *ends] if one.startswith(so_far))
    elif partial.number is not None:
        for end in _ENDS_OF_NUMBERS:
            try:
                yield last, json.loads(partial.number + end)
            except ValueError:
                continue
    elif partial.key is not None:
        inside = _get(partial.value, last)
        names = [one for one in [*(there or ()), *strings] if isinstance(one, str)]
        for name in dict.fromkeys(names):
            if name.startswith(partial.key) and name not in inside:
                yield from (((*last, name), one) for one in _POOL)
    elif (hole := _hole(partial)) is not None:
        yield from ((hole, one) for one in [*_around(partial, hole, instance), *_POOL])
    else:
        yield None, None


def _hole(partial: Partial) -> Path | None:
    """The path of the value that must come next."""
    if not partial.open:
        return () if partial.value is HOLE else None
    inside = _get(partial.value, partial.open[-1])
    if isinstance(inside, list):
        return (*partial.open[-1], len(inside) - 1) if inside and inside[-1] is HOLE else None
    if isinstance(inside, dict):
        name = next((name for name, one in inside.items() if one is HOLE), None)
        return None if name is None else (*partial.open[-1], name)
    return None


def _around(partial: Partial, hole: Path, instance: Any) -> list[Any]:
    """The instance's value at a place, and the item before it."""
    inside = _get(partial.value, hole[:-1]) if hole else None
    before = inside[-2:-1] if isinstance(inside, list) else []
    there = _get(instance, hole)
    return [*([] if there is None else [there]), *before]


def _grafted(value: Any, instance: Any, open_paths: list[Path]) -> Any:
    """A value whose open containers also get what the instance's containers have besides."""
    for path in open_paths:
        here, there = _get(value, path), _get(instance, path)
        if isinstance(here, dict) and isinstance(there, dict):
            here |= {name: copy.deepcopy(one) for name, one in there.items() if name not in here}
        elif isinstance(here, list) and isinstance(there, list):
            here += copy.deepcopy(there[len(here) :])
    return value


def _get(value: Any, path: Path) -> Any:
    """The value at a path; None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _put(value: Any, path: Path, one: Any) -> Any:
    if not path:
        return one
    inside = _get(value, path[:-1])
    step = path[-1]
    inside[step] = one
    return value
