"""Owns the errors that llguidance's messages for refused grammars become."""

from __future__ import annotations

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.backends.llguidance.lark import OPTIONS
from specguide.guided.lark.source import named_token

_UNIMPLEMENTED = 'Unimplemented keys: ["'
_KEYWORD_OF = {
    "oneOf constraints are not supported": "oneOf",
    "Unknown format": "format",
    "patternProperty regexes": "patternProperties",
    "min/maxProperties only supported": "minProperties",
    "Resource '": "$ref",
    "circular references": "$ref",
}
_MALFORMED = (
    "invalid type",
    "unsatisfiable",
    "does not exist",
    "expected",
    "regex parse error",
    "invalid regex",
    "unknown name",
    "lexer error",
    "parser error",
    "redefined",
    "duplicate",
)
_NOT_SUPPORTED = ("not supported", "unsupported", "not implemented")
_TOO_LARGE = (
    "its terminals take too many steps to compile; make them fewer, or counts and character "
    "classes smaller"
)


def refusal(words: str, kind: str, source: str) -> InvalidGuide:
    """The error for a message of the library. kind: the guide's kind by `read_as`; source: the text
    that the library was given"""
    named = named_token(source)
    if named is not None:
        return UnsupportedGuide(
            f"{named} in the Lark grammar is no special token of this model that an output holds: "
            "write the name or the id of one, as <[2]>; an end token is left out"
        )
    param = kind.partition(",")[0]
    words = _without_place(words) if param != "grammar" else _without_options(words)
    words = _TOO_LARGE if "initial_lexer_fuel" in words else words.strip()
    _, is_unimplemented, key = words.partition(_UNIMPLEMENTED)
    keyword = (
        key.partition('"')[0]
        if is_unimplemented
        else next((keyword for sign, keyword in _KEYWORD_OF.items() if sign in words), None)
    )
    if keyword is None and _is_malformed(words.lower()):
        return InvalidGuide(f"{kind} is malformed: {words}", param=param)
    return UnsupportedGuide(f"llguidance cannot compile {kind}: {words}", keyword=keyword)


def _without_place(words: str) -> str:
    """A message without lines and columns: they refer to the Lark text, which the caller did not
    write."""
    place, found, rest = words.partition("): ")
    if found and place.startswith("at "):
        words = rest.removeprefix("failed to compile JSON schema: ")
    return words.partition("\n   1 | ")[0]


def _without_options(words: str) -> str:
    """A message without the last lines that it quotes, which the caller did not write."""
    lines = words.split("\n")
    ours = [i for i, line in enumerate(lines) if line.partition(" | ")[2] == OPTIONS.strip()]
    return "\n".join(lines[: ours[0]] if ours else lines)


def _is_malformed(words: str) -> bool:
    is_fraction = (
        words.endswith(".0") and words.removesuffix(".0").rpartition("got ")[2].isdecimal()
    )
    return (
        any(sign in words for sign in _MALFORMED)
        and not is_fraction
        and not any(sign in words for sign in _NOT_SUPPORTED)
    )
