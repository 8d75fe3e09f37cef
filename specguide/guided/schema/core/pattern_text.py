"""Owns the core's dialect of regular expressions: reading a `pattern`, and writing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from specguide.guided.budget import know
from specguide.guided.regex.charset import Ranges
from specguide.guided.regex.parse import check_length
from specguide.guided.regex.tree import (
    MAX_CHARS,
    NOTHING,
    Both,
    Regex,
    RegexError,
    UnsupportedRegex,
)
from specguide.guided.regex.whole import searched
from specguide.guided.regex.writer import restrict, write
from specguide.guided.schema.core.nodes import refuse

ALIKE = "write it with plain classes, as [0-9] for \\d, [A-Za-z0-9_] for \\w, [ \\t] for \\s"
"""What to do about a pattern on which engines disagree."""


def read_pattern(pattern: str, keyword: str, path: str) -> Regex:
    """Returns the expression of the whole strings that a `pattern` allows. Raises UnsupportedGuide
    for a pattern that is malformed or not regular."""
    try:
        return searched(pattern)
    except RegexError as error:
        mend = "; write it without slashes around it" if pattern.startswith("/^") else ""
        raise refuse(keyword, path, f"{error}{mend}") from error


def write_pattern(node: Regex, characters: Ranges) -> str | None:
    """Returns a tree as a `pattern` of the core; None where it matches no string of these
    characters. Raises UnsupportedRegex for one that is too long."""
    restricted = restrict(node, characters)
    if restricted == NOTHING:
        return None
    text = whole_pattern(restricted)
    check_length(text)
    return text


@contextmanager
def refusing(keyword: str, path: str) -> Iterator[None]:
    """Turns an UnsupportedRegex from its block into the error for a keyword that cannot be
    enforced."""
    try:
        yield
    except UnsupportedRegex as error:
        raise refuse(keyword, path, f"after rewriting, {error}") from error


def whole_pattern(node: Regex) -> str:
    """Returns a tree without anchors as a pattern, and remembers the tree for `searched`."""
    text = f"^(?:{write(node)})$"
    if len(text) <= MAX_CHARS:
        known = replace(node, is_exact=True) if isinstance(node, Both) else node
        know(searched, known, text)
    return text
