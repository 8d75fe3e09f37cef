"""Owns the options of rules in an EBNF grammar, which xgrammar writes in brackets behind a rule's
name. Takes linear time."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.notations.grammar_form import ebnf_parts, start_of_name


def without_options(source: str) -> tuple[str, dict[str, str]]:
    """A grammar without the options of its rules; and by rule, these options with their
    brackets."""
    options: dict[str, str] = {}
    if not any(head.rstrip().endswith("]") for head in source.split("::=")[:-1]):
        return source, options
    parts = list(ebnf_parts(source))
    written = []
    texts = [text for _, text in parts]
    for (sign, text), before, behind in zip(parts, ["", *texts], [*texts[1:], ""], strict=False):
        if sign == "[" and behind.lstrip().startswith("::="):
            options[before[start_of_name(before) :].strip()] = text
        else:
            written.append(text)
    return "".join(written), options


def with_options(source: str, options: Mapping[str, str]) -> str:
    """A grammar with these options of its rules."""
    if not options:
        return source
    return "".join(
        text if sign else _with_options(text, options) for sign, text in ebnf_parts(source)
    )


def _with_options(text: str, options: Mapping[str, str]) -> str:
    *heads, last = text.split("::=")
    return "".join(f"{_head(head, options)}::=" for head in heads) + last


def _head(head: str, options: Mapping[str, str]) -> str:
    """The text before a rule's `::=`, with its options."""
    found = options.get(head[start_of_name(head) :].strip())
    return head if found is None else f"{head.rstrip()}{found} "
