"""Owns the texts behind which JSON begins in a structural tag, for the guard of its keys.

The guard finds JSON by the text before it, so this text must not occur elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from specguide.errors import UnsupportedGuide
from specguide.guided.known.keys import TEXT_START
from specguide.guided.schema.json_values import Json

_OPENERS = ("{", "[", '"')
_HOLDING = {"sequence": "elements", "or": "elements"}
_INSIDE = ("optional", "plus", "star", "repeat")
_OF_TAGS = ("triggered_tags", "tags_with_separator")


def tag_starts(tag: dict[str, Json]) -> dict[int, bytes]:
    """The text before each part that holds a schema, by the part's id.

    Raises UnsupportedGuide where it could occur elsewhere, or there is none.
    """
    if tag["format"]["type"] == "json_schema":
        return {id(tag["format"]): TEXT_START}
    begins_by_part: dict[int, str] = {}
    others: list[str] = []
    for part, text in _parts(tag["format"]):
        if part is None:
            others.append(text)
        else:
            begins_by_part[id(part)] = text
    begins = list(begins_by_part.values())
    if any(begin in text or _overlaps(text, begin) for text in others for begin in begins):
        raise _unsupported("a text may contain the beginning of a tag")
    if any(_goes_on(one, other) for one, other in permutations(begins, 2)):
        raise _unsupported("two tags begin alike")
    return {part: begin.encode() for part, begin in begins_by_part.items()}


def _parts(node: dict[str, Json]) -> Iterator[tuple[dict[str, Json] | None, str]]:
    """The parts that hold a schema, each with the text before it; and other texts, each with
    None."""
    kind = node["type"]
    if kind in _HOLDING:
        for element in node[_HOLDING[kind]]:
            yield from _parts(element)
    elif kind in _INSIDE:
        yield from _parts(node["content"])
    elif kind in _OF_TAGS:
        yield None, node.get("separator", "")
        for tag in node["tags"]:
            yield from _tag(tag)
    elif kind == "tag":
        yield from _tag(node)
    elif kind == "const_string":
        yield None, node["value"]
    else:
        raise _unsupported(f"a part of type {kind} is in no tag that begins with a text")


def _tag(node: dict[str, Json]) -> Iterator[tuple[dict[str, Json] | None, str]]:
    begin, content, end = node["begin"], node["content"], node["end"]
    if content["type"] != "json_schema" or not isinstance(begin, str) or not begin:
        raise _unsupported("a tag holds anything but JSON after its beginning")
    yield content, begin
    for text in [end] if isinstance(end, str) else end:
        if not isinstance(text, str):
            raise _unsupported("a tag ends with a token")
        yield None, text


def _overlaps(text: str, begin: str) -> bool:
    """Whether a text ends with a prefix of another."""
    return any(begin.startswith(text[-length:]) for length in range(1, len(text) + 1))


def _goes_on(one: str, other: str) -> bool:
    """Whether JSON might stand behind `one` where `other` continues."""
    rest = other.removeprefix(one)
    return other.startswith(one) and (not rest or rest.startswith(_OPENERS))


def _unsupported(what: str) -> UnsupportedGuide:
    return UnsupportedGuide(
        f"{what}, so the structural tag has the keys of an object in the schema's order; ask for "
        'key_order "schema"'
    )
