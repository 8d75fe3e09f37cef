"""Owns the terminals of llguidance's Lark for a core schema's scalars: literals, numerals, strings
that match patterns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from json.encoder import encode_basestring, encode_basestring_ascii

from specguide.errors import UnsupportedGuide
from specguide.guided.adapters.schema_numbers import number_regex, spellings
from specguide.guided.budget import kept
from specguide.guided.regex.charset import (
    JSON_TEXT,
    JSON_UNESCAPED,
    CharSet,
    Ranges,
    holds,
    intersect,
)
from specguide.guided.regex.multiples import multiples
from specguide.guided.regex.tree import (
    MAX_CHARS,
    NOTHING,
    Both,
    Chars,
    Concat,
    Either,
    Regex,
    UnsupportedRegex,
    lengths,
    literal,
    of_length,
    with_chars,
)
from specguide.guided.regex.whole import searched
from specguide.guided.regex.writer import write
from specguide.guided.schema.core.nodes import Node, Numbers
from specguide.guided.schema.core.number_bounds import holds_number
from specguide.guided.schema.core.patterns import have_common_text
from specguide.guided.schema.json_values import Json, exact, is_number
from specguide.guided.written_cache import WrittenCache

_ESCAPES = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


class NoRules(Exception):
    """The schema has no simple rules. keyword: the one without rules, where known; unmerged: why
    what holds at once was not merged, where the merged schema might have had rules"""

    def __init__(
        self, keyword: str | None = None, unmerged: UnsupportedGuide | None = None
    ) -> None:
        super().__init__(keyword)
        self.keyword = keyword
        self.unmerged = unmerged


class NoValue(NoRules):
    """There is no value for which to write rules."""


def no_free_rules(error: NoRules) -> UnsupportedGuide:
    """The error of a schema without rules, whose keys come in any order."""
    what = f"its {error.keyword}" if error.keyword else "it"
    return UnsupportedGuide(
        "llguidance cannot compile this schema with the keys of objects in any order: there are no "
        f"rules for {what}",
        keyword=error.keyword,
    )


def no_exclusion(error: NoRules) -> UnsupportedGuide:
    """The error of a schema without rules that excludes integers, or multiples of a number."""
    keyword = error.keyword or "not"
    beside = f"its {keyword}" if keyword != "not" else "its other keywords"
    return UnsupportedGuide(
        "llguidance cannot exclude integers or multiples of a number, as `not` and oneOf of such "
        f"schemas do, together with {beside}; leave out either",
        keyword=keyword,
    )


def text_literal(value: Json) -> str:
    """The text of a JSON value as a literal."""
    if isinstance(value, str):  # the usual case, in a fifth of the time
        return _lark_string(encode_basestring(value))
    return _lark_string(json.dumps(value, ensure_ascii=False))


def _lark_string(text: str) -> str:
    return encode_basestring_ascii(text).replace("\x7f", "\\u007f")


def value_literal(value: Json) -> str:
    """A scalar as a terminal; a number in all plain spellings."""
    if is_number(value):
        return "|".join(map(_lark_string, spellings(value)))
    return text_literal(value)


def lexemes(value: Json) -> Iterable[str]:
    """The parts of a value's text between which whitespace may stand."""
    if isinstance(value, list):
        yield '"["'
        for i, item in enumerate(value):
            yield from ('","',) * (i > 0)
            yield from lexemes(item)
        yield '"]"'
    elif isinstance(value, dict):
        yield '"{"'
        for i, (name, item) in enumerate(value.items()):
            yield from ('","',) * (i > 0)
            yield from (text_literal(name), '":"')
            yield from lexemes(item)
        yield '"}"'
    else:
        yield f"({value_literal(value)})"


def scalar_terminals(node: Node, name: str, *, is_loose: bool = False) -> list[str]:
    """The terminals of a scalar type; empty where it has no values. is_loose: see `schema_rules`"""
    if name == "null":
        return ['"null"']
    if name == "boolean":
        return ["/true|false/"]
    if name == "string":
        return _string(node, is_loose)
    return _number(node.kinds.numbers, name, is_loose)


def _number(numbers: Numbers, name: str, is_loose: bool) -> list[str]:
    if is_loose and not numbers.is_bounded:
        return [_ANY_INTEGER if name == "integer" else _ANY_NUMBER]
    regex = number_regex(numbers, name)
    if numbers.multiple_of is None or is_loose:
        return [] if regex is None else [_regex(regex)]
    factors = multiples(exact(numbers.multiple_of))
    if regex is None or factors is None or not holds_number(numbers, whole=name == "integer"):
        raise NoRules("multipleOf")
    return [f"({_regex(regex)} & {_regex(factors)})"]


def _regex(pattern: str) -> str:
    if len(pattern) > MAX_CHARS:
        raise NoRules("pattern")
    return f"/{pattern}/"


_ANY_INTEGER = "/-?(?:0|[1-9][0-9]*)/"
_ANY_NUMBER = r"/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/"  # as the library reads one
_CHAR = r'([^"\\\x00-\x1F]|\\["\\bfnrt])'
ANY_STRING = f'/"{_CHAR}*"/'


def _string(node: Node, is_loose: bool) -> list[str]:
    strings = node.kinds.strings
    also = (part.kinds.strings.pattern for part in node.all_of if isinstance(part, Node))
    patterns = [pattern for pattern in (strings.pattern, *also) if pattern is not None]
    least = strings.min_length or 0
    most = strings.max_length
    sized = _of_length(patterns, least, most)
    if sized is not None:
        return [] if sized == NOTHING else [_quoted_tree(sized)]
    parts = list(map(quoted_pattern, patterns))
    left_least, left_most = _not_implied(patterns, least, most)
    if left_least or left_most is not None:
        parts.append(f'/"{_CHAR}{{{left_least},{"" if left_most is None else left_most}}}"/')
    if not parts:
        return [ANY_STRING]
    if patterns and (len(patterns) > 1 or least or most is not None):
        has_text = is_loose or _has_text(patterns, least, most)
    else:
        has_text = most is None or least <= most
    text = parts[0] if len(parts) == 1 else f"({' & '.join(parts)})"
    return [text] if has_text else []


def _of_length(patterns: list[str], least: int, most: int | None) -> Regex | None:
    """A pattern and lengths as one expression, where that is simple; else None."""
    if len(patterns) != 1 or (not least and most is None):
        return None
    return of_length(searched(patterns[0]), least, math.inf if most is None else most)


def _not_implied(patterns: list[str], least: int, most: int | None) -> tuple[int, int | None]:
    """The bounds of a string's length that its patterns do not already imply."""
    if not least and most is None:
        return 0, None
    known = [lengths(searched(pattern)) for pattern in patterns]
    if any(shortest >= least for shortest, _ in known):
        least = 0
    return least, None if any(longest <= (most or 0) for _, longest in known) else most


def _has_text(patterns: list[str], least: int, most: int | None) -> bool:
    """Whether some string of `least` to `most` characters matches all of the patterns. Raises
    NoRules where that takes too long: the library will find out if there is none."""
    try:
        return have_common_text(tuple(patterns), least, most)
    except UnsupportedRegex:
        raise NoRules("pattern") from None


_quoted: WrittenCache[str] = WrittenCache(len, most_of_one=64 << 10)


def quoted_pattern(pattern: str) -> str:
    """The JSON strings whose text a pattern matches. Cached, since many schemas have the same
    format."""
    return _quoted.get(pattern, None, lambda: _quoted_tree(searched(pattern)))


def _quoted_tree(node: Regex) -> str:
    if not isinstance(node, Both):
        escaped = with_chars(node, lambda chars: _escaped(chars.inner))
        return _regex(f'"(?:{write(escaped)})"')
    parts = [
        *map(_quoted_tree, node.items),
        *(f"~{_quoted_tree(excluded)}" for excluded in node.but),
    ]
    return f"({' & '.join(parts)})"


@kept
def _escaped(inner: Ranges) -> Regex:
    """One character of a set, as JSON spells it."""
    text = intersect(inner, JSON_TEXT)
    plain = intersect(text, JSON_UNESCAPED)
    options: list[Regex] = [Chars(CharSet(plain, plain))] if plain else []
    escapes = "".join(letter for code, letter in _ESCAPES.items() if holds(text, code))
    if escapes:
        options.append(Concat((literal("\\"), Either(tuple(map(literal, escapes))))))
    return options[0] if len(options) == 1 else Either(tuple(options))
