"""Owns the limits of size and depth that are checked for every kind of guide before it is
compiled."""

from __future__ import annotations

from itertools import accumulate

from specguide.config import GuideConfig
from specguide.errors import GuideLimitExceeded, InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.notations.grammar_form import grammar_form
from specguide.guided.regex.parse import check_length
from specguide.guided.regex.tree import UnsupportedRegex

_BRACKETS = b"[](){}"
_NO_BRACKET = bytes(set(range(256)) - set(_BRACKETS))
_ROUND = bytes.maketrans(_BRACKETS, b"()()()")
_OPEN = ord("(")
_MOST_ROUNDS = 32


def check_size(guide: Guide, limits: GuideConfig) -> str:
    """The guide's canonical text. Quick. Raises GuideLimitExceeded naming `max_source_bytes` or
    `max_depth`, and UnsupportedGuide for a regular expression too long to be read."""
    try:
        source = guide.source()
    except RecursionError:
        raise _too_deep(guide, limits) from None
    num_bytes = len(encoded(source, guide.kind))
    if num_bytes > limits.max_source_bytes:
        raise _too_much(guide, f"{num_bytes} bytes", "max_source_bytes", limits.max_source_bytes)
    if guide.kind == "regex":
        try:
            check_length(source)
        except UnsupportedRegex as error:
            raise UnsupportedGuide(str(error)) from None
    return source


def encoded(text: str, kind: str) -> bytes:
    """The text of a guide in UTF-8. Raises InvalidGuide where it contains half of a surrogate
    pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidGuide(
            f"{kind} holds U+{ord(text[error.start]):X}, half of a surrogate pair, which is no "
            "character; write the character, or leave it out",
            param=kind,
        ) from None


def check_limits(guide: Guide, limits: GuideConfig) -> None:
    """Raises the errors of `check_size`, GuideLimitExceeded naming `max_depth`, `max_values` or
    `max_rules`, and InvalidGuide for a grammar in no known form.

    The depth of a schema or a tag is that of its JSON; of a regular expression or a grammar, that
    of its brackets. Rules are counted because the libraries follow a chain of rules by recursion,
    and a stack overflow would kill the process.
    """
    source = check_size(guide, limits)
    is_json = guide.kind not in ("regex", "grammar")
    outside = _outside_strings(source) if is_json else _unescaped_brackets(source)
    brackets = outside.encode().translate(_ROUND, _NO_BRACKET)
    if _is_deeper(brackets, limits.max_depth):
        raise _too_deep(guide, limits)
    num_values = outside.count(",") + 1 if is_json else 0
    if num_values > limits.max_values:
        raise _too_much(guide, f"{num_values} values", "max_values", limits.max_values)
    num_rules = _num_rules(source) if guide.kind == "grammar" else 0
    if num_rules > limits.max_rules:
        raise _too_much(guide, f"{num_rules} rules", "max_rules", limits.max_rules)


def _is_deeper(brackets: bytes, most: int) -> bool:
    """Whether more than `most` round brackets are open at one place."""
    left = brackets
    for _ in range(min(most, _MOST_ROUNDS)):
        left = left.replace(b"()", b"")  # removes the innermost pairs
    if not left:
        return False
    depths = accumulate(1 if bracket == _OPEN else -1 for bracket in brackets)
    return max(depths, default=0) > most


def _num_rules(grammar: str) -> int:
    """About the number of a grammar's rules. Raises InvalidGuide for a grammar in no known form."""
    if grammar_form(grammar) == "EBNF":
        return grammar.count("::=")
    return sum(":" in line for line in grammar.splitlines())


def _outside_strings(source: str) -> str:
    """JSON without its strings. Backslashes occur only in strings."""
    unescaped = source.replace("\\\\", "").replace('\\"', "")
    return "".join(unescaped.split('"')[::2])


def _unescaped_brackets(source: str) -> str:
    """A regular expression or a grammar without the characters that a backslash escapes."""
    first, *others = source.replace("\\\\", "").split("\\")
    return first + "".join([other[1:] for other in others])


def _too_much(guide: Guide, found: str, limit: str, most: int) -> GuideLimitExceeded:
    return GuideLimitExceeded(
        f"the {guide.kind} has {found}, more than {limit} ({most}); make it smaller, or raise "
        "the limit",
        limit=limit,
    )


def _too_deep(guide: Guide, limits: GuideConfig) -> GuideLimitExceeded:
    return GuideLimitExceeded(
        f"the {guide.kind} is nested deeper than max_depth ({limits.max_depth}); make it flatter "
        "or raise the limit",
        limit="max_depth",
    )
