"""Owns the search for lazy repetitions in a Lark grammar's regular expressions, which llguidance
reads as greedy, and for rules with the attribute `lazy` whose text may be empty. Takes linear
time."""

from __future__ import annotations

from collections.abc import Iterator

from specguide.guided.notations.grammar_form import behind_mark, behind_token
from specguide.guided.regex.automaton import automaton
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import RegexError, lengths
from specguide.guided.regex.whole import whole

_COUNT = frozenset("0123456789,")
_REPEATING = ("*", "+", "}")
_NO_HEAD = -1
_COMMENTS_OR_MORE = ("|", "//", "#")


def greedy_lazy_expression(source: str) -> str | None:
    """A regular expression with a lazy repetition that llguidance would match too far; None where
    there is none. Rules with attributes are left out: they say themselves where their text ends."""
    before = source.split("?")[:-1]
    if not any(one.endswith(_REPEATING) for one in before) and "??" not in source:
        return None
    for pattern in _expressions(source):
        if _has_lazy_repetition(pattern) and _may_go_on(pattern):
            return pattern
    return None


def empty_lazy_expression(source: str) -> str | None:
    """The regular expression of a rule with the attribute `lazy` that matches the empty text, so
    that the rule should match nothing else; None where there is none."""
    if "lazy" not in source:
        return None
    for line in source.splitlines():
        head, _, body = line.partition(":")
        attributes, body = head.partition("[")[2], body.strip()
        if attributes.strip().removesuffix("]").strip() == "lazy" and body.startswith("/"):
            end = behind_mark(body, 1, "/") or len(body)
            behind = body[end:].lstrip()
            is_whole = not behind or behind.startswith(_COMMENTS_OR_MORE)
            if is_whole and _may_be_empty(body[1 : end - 1]):
                return body[1 : end - 1]
    return None


def _expressions(source: str) -> Iterator[str]:
    """The regular expressions in rules without attributes."""
    at = head = 0
    has_attributes = False
    while at < len(source):
        sign = source[at]
        if sign == "\n":
            head = at + 1
        elif sign in ":[" and head >= 0:
            if source[head:at].strip().lstrip("?!").isidentifier():
                has_attributes = sign == "["
            head = _NO_HEAD
        elif sign == "#" or source.startswith("//", at):
            line_end = source.find("\n", at)
            at = (len(source) if line_end < 0 else line_end) - 1
        elif sign == "<":
            at = behind_token(source, at) - 1
        elif sign in '"/':
            end = behind_mark(source, at + 1, sign) or len(source)
            if sign == "/" and not has_attributes:
                yield source[at + 1 : end - 1]
            at = end - 1
        at += 1


def _has_lazy_repetition(pattern: str) -> bool:
    at = 0
    while at < len(pattern):
        behind = _behind_repetition(pattern, at)
        if behind is not None and pattern.startswith("?", behind):
            return True
        if pattern[at] == "[":
            at = behind_mark(pattern, at + 1, "]") or len(pattern)
        elif pattern[at] == "\\" or pattern.startswith("(?", at):
            at += 2
        else:
            at = at + 1 if behind is None else behind
    return False


def _behind_repetition(pattern: str, at: int) -> int | None:
    """The position behind the repetition that begins at `at`; None where none does."""
    if pattern[at] in "*+?":
        return at + 1
    if pattern[at] != "{":
        return None
    end = at + 1
    while pattern[end : end + 1] in _COUNT:
        end += 1
    return end + 1 if pattern.startswith("}", end) and end > at + 1 else None


def _may_go_on(pattern: str) -> bool:
    """Whether one of a pattern's texts is a prefix of another; True where that is not known."""
    try:
        found = automaton(whole(parse(pattern), search=False), outer=True)
    except RegexError:
        return True
    return any(found.edges[state] for state in found.accepting)


def _may_be_empty(pattern: str) -> bool:
    """Whether a pattern certainly matches the empty text."""
    try:
        return lengths(whole(parse(pattern), search=False))[0] == 0
    except RegexError:
        return False
