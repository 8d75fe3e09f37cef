"""Owns what Lark has and llguidance does not read: comments and blanks on a line of their own
between the alternatives of a rule; in linear time."""

from __future__ import annotations

from collections.abc import Iterator

from specguide.guided.grammar_form import behind_mark

_COMMENTS = ("//", "#")
_BLANKS = frozenset(" \t\r")


def as_lark_reads(source: str) -> str:
    """A Lark grammar without comments where there are lines of nothing else, and without blanks on
    empty lines."""
    lines = source.split("\n")
    if any(line.isspace() or line.lstrip().startswith(_COMMENTS) for line in lines):
        return "".join(_without_comments(source))
    return source


def _without_comments(source: str) -> Iterator[str]:
    done = at = 0
    while at < len(source):
        sign = source[at]
        if source.startswith(_COMMENTS, at):
            yield source[done:at]
            line_end = source.find("\n", at)
            at = done = len(source) if line_end < 0 else line_end
        elif sign == "\n":
            at += 1
            behind = _behind_blanks(source, at)
            if source.startswith(("\n", *_COMMENTS), behind):
                yield source[done:at]
                done = behind
            at = behind
        elif sign in '"/':
            at = behind_mark(source, at + 1, sign) or len(source)
        elif sign == "<":  # the name of a token, as </s>
            at = 1 + max(at, source.find(">", at))
        else:
            at += 1
    yield source[done:]


def _behind_blanks(source: str, at: int) -> int:
    while source[at : at + 1] in _BLANKS:
        at += 1
    return at
