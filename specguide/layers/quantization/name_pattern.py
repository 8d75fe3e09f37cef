"""Owns NamePattern: a regular expression over the names of modules, matched in bounded time.

A checkpoint may contain any expression, and Python's `re` takes exponential time for some. Here
each part of an expression maps the set of positions where it may begin to the set where it may end,
so no position is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import shown

_Part = Callable[[str, set[int]], set[int]]
_Accepts = Callable[[str], bool]

_LONGEST = 1000
_MOST_REPEATS = 100
_DEEPEST = 3
"""Maximum nesting of repetitions: each level may take as many rounds as a name has characters."""

_CLASSES: dict[str, _Accepts] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class NamePattern:
    """The expression behind `re:` in a list of modules, in Python's syntax.

    Supported are literals, `.`, classes, groups, alternatives, repetitions, `^`, `$` and
    lookaheads.

    within: for a text model inside a larger one: what `model.` is called in the whole model
    """

    source: str
    within: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise CheckpointError if the expression is invalid, or uses an unsupported construct."""
        _parsed(self.source)

    def matches(self, name: str) -> bool:
        """Whether the name begins with a match, as in `re.match`; within a larger model, whether
        one of the names that the module has there does. Raises like `check`."""
        matched = _parsed(self.source)
        return any(matched(one, {0}) for one in self._spelled(name))

    def _spelled(self, name: str) -> list[str]:
        if not self.within:
            return [name]
        if not name.startswith("model."):
            return [name, f"language_model.{name}"]
        return [prefix + name.removeprefix("model.") for prefix in self.within]


@cache
def _parsed(source: str) -> _Part:
    return _Parser(source).whole()


class _Parser:
    """A recursive-descent parser: each method begins at `self.position`, and moves it behind what
    it has read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.position = 0

    def whole(self) -> _Part:
        if len(self.source) > _LONGEST:
            raise self._error(f"has more than {_LONGEST} characters")
        part, _ = self._alternatives()
        if self.position < len(self.source):
            raise self._error("has a ')' too many")
        return part

    def _alternatives(self) -> tuple[_Part, int]:
        """The part made of alternatives, and the nesting depth of repetitions in it."""
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return _either([part for part, _ in options]), max(depth for _, depth in options)

    def _sequence(self) -> tuple[_Part, int]:
        parts: list[_Part] = []
        deepest = 0
        while self.position < len(self.source) and self.source[self.position] not in "|)":
            part, depth = self._repeated()
            parts.append(part)
            deepest = max(deepest, depth)
        return _sequence(parts), deepest

    def _repeated(self) -> tuple[_Part, int]:
        part, depth = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return part, depth
        self._take("?")  # lazy or greedy: which match is tried first makes no difference
        if depth == _DEEPEST:
            raise self._error(f"nests more than {_DEEPEST} repetitions")
        return _repeat(part, *bounds), depth + 1

    def _bounds(self) -> tuple[int, int | None] | None:
        for mark, bounds in _QUANTIFIERS.items():
            if self._take(mark):
                return bounds
        if not self._take("{"):
            return None
        least, comma, most = self._until("}").partition(",")
        if not comma:
            return self._count(least), self._count(least)
        return self._count(least or "0"), self._count(most) if most else None

    def _count(self, text: str) -> int:
        if not text.isdecimal() or int(text) > _MOST_REPEATS:
            raise self._error(f"needs counts of at most {_MOST_REPEATS} between '{{' and '}}'")
        return int(text)

    def _atom(self) -> tuple[_Part, int]:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "^":
            return (lambda text, starts: starts & {0}), 0
        if char == "$":
            return (lambda text, starts: starts & {len(text)}), 0
        if char in "*+?{":
            raise self._error(f"has {char!r} behind nothing")
        return _one(self._accepts(char)), 0

    def _group(self) -> tuple[_Part, int]:
        is_negative = self._take("?!")
        is_ahead = is_negative or self._take("?=")
        if not is_ahead and not self._take("?:") and self._take("?"):
            raise self._error("has a group of a kind that is not supported")
        part, depth = self._alternatives()
        if not self._take(")"):
            raise self._error("has a '(' that is not closed")
        return (_ahead(part, is_negative) if is_ahead else part), depth

    def _accepts(self, char: str) -> _Accepts:
        if char == ".":
            return lambda found: found != "\n"
        if char == "[":
            return self._class()
        return self._escaped() if char == "\\" else char.__eq__

    def _escaped(self) -> _Accepts:
        char = self._next()
        accepts = _CLASSES.get(char.lower())
        if accepts is not None:
            known = accepts
            return known if char.islower() else (lambda found: not known(found))
        if char.isalnum():
            raise self._error(f"has '\\{char}', which is not supported")
        return char.__eq__

    def _class(self) -> _Accepts:
        is_negative = self._take("^")
        members = [self._member()]
        while not self._take("]"):
            members.append(self._member())
        return lambda found: any(accepts(found) for accepts in members) != is_negative

    def _member(self) -> _Accepts:
        first = self._next()
        if first == "\\":
            return self._escaped()
        is_range = self.source[self.position : self.position + 1] == "-"
        if not is_range or self.source[self.position + 1 : self.position + 2] == "]":
            return first.__eq__
        self.position += 1
        last = self._next()
        return lambda found: first <= found <= last

    def _take(self, mark: str) -> bool:
        found = self.source.startswith(mark, self.position)
        self.position += len(mark) if found else 0
        return found

    def _next(self) -> str:
        if self.position == len(self.source):
            raise self._error("ends too early")
        self.position += 1
        return self.source[self.position - 1]

    def _until(self, mark: str) -> str:
        end = self.source.find(mark, self.position)
        if end < 0:
            raise self._error(f"lacks a {mark!r}")
        text = self.source[self.position : end]
        self.position = end + 1
        return text

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"the pattern {shown('re:' + self.source)} {what}")


def _one(accepts: _Accepts) -> _Part:
    def run(text: str, starts: set[int]) -> set[int]:
        return {start + 1 for start in starts if start < len(text) and accepts(text[start])}

    return run


def _sequence(parts: Iterable[_Part]) -> _Part:
    def run(text: str, starts: set[int]) -> set[int]:
        for part in parts:
            starts = part(text, starts)
        return starts

    return run


def _either(parts: Iterable[_Part]) -> _Part:
    return lambda text, starts: set().union(*(part(text, starts) for part in parts))


def _repeat(part: _Part, least: int, most: int | None) -> _Part:
    def run(text: str, starts: set[int]) -> set[int]:
        for _ in range(least):
            starts = part(text, starts)
        ends = set(starts)
        new = starts
        num_rounds = least
        while new and (most is None or num_rounds < most):
            new = part(text, new) - ends
            ends |= new
            num_rounds += 1
        return ends

    return run


def _ahead(part: _Part, is_negative: bool) -> _Part:
    def run(text: str, starts: set[int]) -> set[int]:
        return {start for start in starts if bool(part(text, {start})) != is_negative}

    return run
