"""Owns Lark regular expressions of texts as Python's `repr` writes them."""

from __future__ import annotations

from specguide.guided.lark.literal import literal, pattern_of

_HEX = "[0-9a-f]"
_CODES = (
    f"x{_HEX}{{2}}",
    f"u([0-9a-ce-f]{_HEX}{{3}}|d[0-7]{_HEX}{{2}})",  # not half of a surrogate pair
    f"U00(0[1-9a-f]|10){_HEX}{{4}}",
)
_BACKSLASH = r"\\"
_NUMBER = r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][-+]?[0-9]{1,2})?"
_QUOTES = "'", '"'


def quoted_patterns(least: int, most: int | None, barred: str) -> tuple[str, ...]:
    """The terms of texts with `least` to `most` characters: in single quotes, or in double quotes
    where they contain a single quote and no double one. barred: a text that none of them
    contains"""
    count = f"{{{least},{'' if most is None else most}}}"
    without = f" & ~/(?s:.*){pattern_of(barred)}(?s:.*)/" if barred else ""
    single, double = (_pattern(quote, count) for quote in _QUOTES)
    return f"(/{single}/{without})", f"(/{double}/ & /(?s:.*)'(?s:.*)/{without})"


def _pattern(quote: str, count: str) -> str:
    signs = r"[\\nrt']" if quote == "'" else r"[\\nrt]"
    escaped = f"{_BACKSLASH}({'|'.join((signs, *_CODES))})"
    return f"{quote}([^\\x00-\\x1f\\x7f{_BACKSLASH}{quote}]|{escaped}){count}{quote}"


def literal_rules(text: str) -> dict[str, str]:
    """The rules for any literal that corresponds to JSON: their bodies by name. text: the name of
    the rule for any text"""
    words = " | ".join(f'"{word}"' for word in ("True", "False", "None"))
    member = f'{text} ": " any_value'
    return {
        "any_value": f": {text} | /{_NUMBER}/ | {words} | any_array | any_object",
        "any_array": f": {_between('[', 'any_value', ']')}",
        "any_object": f": {_between('{', member, '}')}",
    }


def _between(begin: str, item: str, end: str) -> str:
    return f'{literal(begin)} ({item} (", " {item})*)? {literal(end)}'
