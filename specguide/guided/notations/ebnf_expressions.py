"""Owns the regular expressions in an EBNF grammar, which xgrammar writes as `Regex("…")`. Takes
linear time."""

from __future__ import annotations

from collections.abc import Callable

from specguide.errors import UnsupportedGuide
from specguide.guided.notations.grammar_form import ebnf_parts, start_of_name

_MACRO, _FLAGS = "Regex", "flags"
_ITSELF = frozenset("\"\\'?/")
_CONTROLS = {"00": r"\\u{0}", "0a": r"\\n", "0d": r"\\r"}
_IGNORED = ("(?=", "(?!", "^", "$")


def with_expressions(source: str, rewritten: Callable[[str], str]) -> str:
    """A grammar with its regular expressions written anew; those with flags stay. Raises
    UnsupportedGuide where the library would ignore a part of them, and the errors of
    `rewritten`."""
    if _MACRO not in source:
        return source
    parts = list(ebnf_parts(source))
    written = [text for _, text in parts]
    for at in range(1, len(parts), 2):
        sign, text = parts[at]
        if sign == '"' and _calls_macro(parts[at - 1][1]):
            pattern = _pattern(text)
            has_flags = _FLAGS in parts[at + 1][1].partition(")")[0]
            if not has_flags:
                written[at] = _literal(rewritten(pattern))
            elif any(sign in pattern.replace("[^", "") for sign in _IGNORED):
                raise UnsupportedGuide(
                    f"an anchor or a lookahead beside {_FLAGS} in {text} in the grammar would be "
                    "ignored; write (?i) into the expression"
                )
    return "".join(written)


def _calls_macro(before: str) -> bool:
    """Whether a text ends with the macro's name and its opening bracket."""
    before = before.rstrip()
    name = before[:-1].rstrip()
    return before.endswith("(") and name[start_of_name(name) :] == _MACRO


def _pattern(literal: str) -> str:
    """The regular expression that a literal spells; the literal's escapes of control characters
    mean the same in it."""
    first, *escaped = literal[1:-1].split("\\")
    written = [first]
    pieces = iter(escaped)
    for piece in pieces:
        if not piece:  # an escaped backslash
            written.append("\\" + next(pieces, ""))
        else:
            written.append(piece if piece[0] in _ITSELF else "\\" + piece)
    return "".join(written)


def _literal(pattern: str) -> str:
    """A regular expression that was written anew, as a literal."""
    first, *escaped = pattern.replace('"', r"\"").split("\\")
    written = [first]
    pieces = iter(escaped)
    for piece in pieces:
        if not piece:
            written.append(r"\\\\" + next(pieces, ""))
        elif piece[0] == '"':
            written.append("\\" + piece)
        elif piece[0] == "x":
            written.append(_CONTROLS.get(piece[1:3], rf"\u00{piece[1:3]}") + piece[3:])
        else:
            written.append(r"\\" + piece)
    return f'"{"".join(written)}"'
