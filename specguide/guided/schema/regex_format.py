"""Owns the regular expression of format `regex`: the expressions that both Python and ECMA-262
(with flag `u`) read."""

from __future__ import annotations

_RANGE = "(?:a-[a-z]|[b-y]-z|A-[A-Z]|[B-Y]-Z|0-[0-9]|[1-8]-9)"
_HEX = "[0-9A-Fa-f]"
_ESCAPE = rf"\\(?:[dDwWsSnrtfv.*+?()\[\]{{}}|^$\\/]|x{_HEX}{{2}}|u{_HEX}{{4}})"
_IN_CLASS = rf"(?:{_RANGE}|{_ESCAPE}|\\-|[^\x00-\x1f\\^\[\]-])"
_CLASS = rf"\[\^?(?:-?{_IN_CLASS}+-?|-)\]"

_FROM_TO = "|".join(f"{least},[{least}-9]" for least in range(10))
_BOUNDS = rf"\{{(?:[0-9]{{1,3}},?|{_FROM_TO}|[0-9],[1-9][0-9]{{1,2}}|[0-9]{{2}},[1-9][0-9]{{2}})\}}"
_TIMES = rf"(?:(?:[*+?]|{_BOUNDS})\??)?"

_PLAIN = r"[^\x00-\x1f\\^$.|?*+()\[\]{}]"
_ATOM = rf"(?:{_PLAIN}|{_ESCAPE}|{_CLASS}|\.){_TIMES}|\^|\$|\\b|\|"


def _with_groups(depth: int) -> str:
    """Expressions with groups nested up to `depth` deep."""
    if not depth:
        return rf"(?:{_ATOM})*"
    return rf"(?:{_ATOM}|\((?:\?:)?{_with_groups(depth - 1)}\){_TIMES})*"


REGEX = rf"(?:{_ATOM}|\((?:\?:)?{_with_groups(1)}\){_TIMES}|\(\?[=!]{_with_groups(1)}\))*"
