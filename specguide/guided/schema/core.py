"""Owns the core: the part of JSON Schema that grammar backends enforce, and how its schemas are put
together.

The core has no drafts, no remote or relative references, no conditionals, no negation and one
regular expression
dialect: types, constants, bounds, `pattern`, `properties`, `patternProperties`,
         `additionalProperties`, `required`,
`items`, `prefixItems`, `anyOf`, `allOf`, references to root definitions, and of `not` no more than
NO_INTEGER.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.regex.charset import JSON_TEXT, JSON_UNESCAPED, Ranges
from specguide.guided.regex.parse import NOTHING, Node, RegexError, parse
from specguide.guided.regex.writer import restrict, whole, write


class Core(dict[str, Any]):
    """A subschema of the core; `path` is the JSON pointer of the original subschema that it comes
    from."""

    def __init__(self, path: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.path = path


CoreSchema = Core | bool


@dataclass(frozen=True)
class Target:
    """What a backend's core looks like.

    characters:     what a `pattern` may match; a backend that does not write escapes needs strings
                    without them
    narrow:         objects that name properties take no others, and lengths become patterns: the
                    backend cannot keep other properties apart from the named ones, and counts
                    characters that JSON strings cannot hold
    """

    characters: Ranges
    narrow: bool


NO_INTEGER = {"type": "integer"}
"""The only `not` of the core, for numbers that are no integers."""

TARGETS = {
    "llguidance": Target(JSON_TEXT, narrow=False),
    "xgrammar": Target(JSON_UNESCAPED, narrow=True),
}


def any_of(path: str, options: Iterable[CoreSchema]) -> CoreSchema:
    """Instances of any of the options."""
    kept = [option for option in options if option is not False]
    if any(option is True for option in kept):
        return True
    if len(kept) <= 1:
        return kept[0] if kept else False
    return Core(path, anyOf=kept)


def all_of(path: str, parts: Iterable[CoreSchema]) -> CoreSchema:
    """Instances of all the parts."""
    kept = [part for part in parts if part is not True]
    if any(part is False for part in kept):
        return False
    if len(kept) <= 1:
        return kept[0] if kept else True
    return Core(path, allOf=kept)


def weight(core: Any) -> int:
    """How much there is to write of a core schema: values, and texts by 16 characters; what is
    shared counts each time."""
    known: dict[int, int] = {}

    def of(part: Any) -> int:
        if isinstance(part, str):
            return 1 + len(part) // 16
        if not isinstance(part, (dict, list)):
            return 1
        if id(part) not in known:
            spend()
            known[id(part)] = (
                1
                + sum(map(of, part.values() if isinstance(part, dict) else part))
                + (sum(len(key) // 16 for key in part) if isinstance(part, dict) else 0)
            )
        return known[id(part)]

    return of(core)


def refuse(keyword: str, path: str, why: str) -> UnsupportedGuide:
    """The error for a keyword, of the subschema at `path`, that cannot be enforced."""
    path = f"{path}/{keyword}"
    return UnsupportedGuide(
        f"{keyword} at {path} cannot be enforced: {why}", keyword=keyword, path=path
    )


def read_pattern(pattern: str, keyword: str, path: str) -> Node:
    """What a `pattern` asks of a whole string. Raises UnsupportedGuide when it is malformed or not
    regular."""
    try:
        return whole(parse(pattern), search=True)
    except RegexError as error:
        raise refuse(keyword, path, str(error)) from error


def write_pattern(node: Node, target: Target) -> str | None:
    """The core's `pattern` for a tree; None where no string of the target matches it."""
    restricted = restrict(node, target.characters)
    return None if restricted == NOTHING else f"^(?:{write(restricted)})$"


def in_doubles(core: Any) -> Any:
    """A core schema whose bounds of numbers are doubles, each the nearest one on the inner side of
    a bound.

    Raises UnsupportedGuide where it lists a number that is none.
    """
    if isinstance(core, list):
        return [in_doubles(item) for item in core]
    if not isinstance(core, dict):
        return core
    for value in core.get("enum", ()):
        if _is_whole(value) and abs(value) > 2**53:
            raise UnsupportedGuide(
                f"the number {value} in an enum is too large to be told from its neighbours",
                keyword="enum",
            )
    return {
        keyword: _inner(value, upper=keyword in _UPPER)
        if keyword in _BOUNDS and _is_whole(value)
        else value
        if keyword == "enum"
        else in_doubles(value)
        for keyword, value in core.items()
    }


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _inner(bound: int, upper: bool) -> float:
    if abs(bound) <= 2**53:
        return bound
    try:
        near = float(bound)
    except OverflowError:
        return math.copysign(1e300, bound)
    if int(near) != bound and (int(near) > bound) == upper:
        near = math.nextafter(near, -math.inf if upper else math.inf)
    return int(near) if abs(near) < 2**63 else near


_UPPER = frozenset({"maximum", "exclusiveMaximum"})
_BOUNDS = _UPPER | {"minimum", "exclusiveMinimum"}
