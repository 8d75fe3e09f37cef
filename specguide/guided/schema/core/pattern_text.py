"""Owns the core's dialect of regular expressions: how a `pattern` is read, and written anew."""

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


def read_pattern(pattern: str, keyword: str, path: str) -> Regex:
    """What a `pattern` asks of a whole string. Raises UnsupportedGuide when it is malformed or not
    regular."""
    try:
        return searched(pattern)
    except RegexError as error:
        mend = "; write it without slashes around it" if pattern.startswith("/^") else ""
        raise refuse(keyword, path, f"{error}{mend}") from error


def write_pattern(node: Regex, characters: Ranges) -> str | None:
    """The core's `pattern` for a tree; None where no string of these characters matches it. Raises
    UnsupportedRegex where it is too long."""
    restricted = restrict(node, characters)
    if restricted == NOTHING:
        return None
    text = whole_pattern(restricted)
    check_length(text)
    return text


@contextmanager
def refusing(keyword: str, path: str) -> Iterator[None]:
    """An UnsupportedRegex from inside is raised as the error for a keyword that cannot be
    enforced."""
    try:
        yield
    except UnsupportedRegex as error:
        raise refuse(keyword, path, f"written anew, {error}") from error


def whole_pattern(node: Regex) -> str:
    """The text of a tree without anchors, which need not be read then."""
    text = f"^(?:{write(node)})$"
    if len(text) <= MAX_CHARS:
        known = replace(node, is_exact=True) if isinstance(node, Both) else node
        know(searched, known, text)
    return text
