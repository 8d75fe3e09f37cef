"""Owns the removal of surrogate halves from the classes of xgrammar's EBNF: they are not
characters, and the library would write each as three bytes that are not UTF-8. Takes linear
time."""

from __future__ import annotations

from specguide.guided.notations.ebnf_escapes import spelled_code
from specguide.guided.notations.grammar_form import ebnf_parts

_SURROGATES = r"\ud800-\udfff"
_AROUND = r"\ud7ff\ue000-"
_LAST_BELOW, _FIRST_ABOVE = 0xD7FF, 0xE000
_BUT_CONTROLS = r"[^\0-"
_BUT_CONTROLS_OR_HALVES = rf"[^{_SURROGATES}\0-"


def without_surrogates(ebnf: str) -> str:
    """An EBNF grammar whose classes contain only whole characters."""
    return "".join(_class(text) if sign == "[" else text for sign, text in ebnf_parts(ebnf))


def without_surrogates_in_strings(printed: str) -> str:
    """A grammar that the library printed for a JSON Schema, with its own classes changed
    likewise."""
    return "\n".join(
        rule.replace(_BUT_CONTROLS, _BUT_CONTROLS_OR_HALVES) if _is_of_string(rule) else rule
        for rule in printed.split("\n")
    )


def _is_of_string(rule: str) -> bool:
    """Whether a printed rule is for a string of any text, or for the name of an unnamed
    property."""
    name = rule.partition(" ::= ")[0]
    return name.startswith("basic_string_sub") or "_addl_key_" in name


def _class(text: str) -> str:
    if text.startswith("[^"):
        return f"[^{_SURROGATES}{text[2:]}"
    written = []
    done = at = 1
    low = _LAST_BELOW + 1
    while at < len(text) - 1:
        if text[at] == "-" and low <= _LAST_BELOW and at < len(text) - 2:
            high, end = _item(text, at + 1)
            if high >= _FIRST_ABOVE:
                written += [text[done : at + 1], _AROUND]
                done = at + 1
            at, low = end, _LAST_BELOW + 1
        else:
            low, at = _item(text, at)
    return "".join(["[", *written, text[done:]])


def _item(text: str, at: int) -> tuple[int, int]:
    """A character of a class, or -1 for an escape with a letter, and the position behind it."""
    return spelled_code(text, at) if text[at] == "\\" else (ord(text[at]), at + 1)
