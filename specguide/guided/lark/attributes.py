"""Owns the reading of rule attributes in a Lark grammar, which stand in brackets behind a rule's
name. Takes linear time."""

from __future__ import annotations

from collections.abc import Iterator

from specguide.guided.notations.grammar_form import behind_mark, behind_space


def lark_attributes(source: str) -> Iterator[str]:
    """Names of the attributes that have a value, such as `max_tokens` in `text[max_tokens=5]:
    /.*/`."""
    for line in source.splitlines():
        head, bracket, _ = line.partition("[")
        if bracket and _is_head(head):
            yield from _with_value(line, len(head) + 1)


def _is_head(text: str) -> bool:
    """Whether a text is a rule's name, perhaps with ? or ! in front, perhaps with a priority."""
    name, dot, priority = text.strip().lstrip("?!").partition(".")
    return name.isidentifier() and (not dot or priority.removeprefix("-").isdecimal())


def _with_value(line: str, at: int) -> Iterator[str]:
    """The words before a =, up to the closing bracket; up to the line's end where no bracket
    closes."""
    while at < len(line) and line[at] != "]":
        end = at
        while end < len(line) and (line[end].isalnum() or line[end] == "_"):
            end += 1
        if end > at:
            name = line[at:end]
            at = behind_space(line, end)
            if line.startswith("=", at):
                yield name
        elif line[at] in '"/':
            at = behind_mark(line, at + 1, line[at]) or len(line)
        else:
            at += 1
