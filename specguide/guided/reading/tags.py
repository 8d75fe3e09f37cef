"""Owns the reading of an output with structural tags, while it is written: text, tags, fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

from specguide.guided.reading.cursor import Cursor, Part, Steps
from specguide.guided.reading.json_reader import JsonReader

_TEXT = Part("content", "text")
_SEPARATOR = Part("content", "punctuation")


@dataclass(frozen=True)
class Tag:
    """A tag that may come. is_json: it contains JSON; else it contains text up to the first of its
    ends"""

    begin: bytes
    is_json: bool
    ends: tuple[bytes, ...]


@dataclass(frozen=True)
class TagLayout:
    """The parts of a text that a structural tag fixes.

    tags:      no tag's `begin` starts with that of another
    triggers:  texts with which tags begin behind free text; empty where there is no free text
    separator: the text between two tags, where there is no free text; None: there is one tag
    """

    tags: tuple[Tag, ...]
    triggers: tuple[bytes, ...] = ()
    separator: bytes | None = None


def tag_layout(form: Mapping[str, Any]) -> TagLayout | None:
    """The layout of a structural tag's format; None where a text may belong to several parts."""
    kind = form["type"]
    if kind not in ("tag", "triggered_tags", "tags_with_separator"):
        return None
    tags = [_tag(one) for one in ([form] if kind == "tag" else form["tags"])]
    known = tuple(tag for tag in tags if tag is not None)
    if len(known) < len(tags) or _is_ambiguous([tag.begin for tag in known]):
        return None
    if kind == "triggered_tags":
        return TagLayout(known, tuple(trigger.encode() for trigger in form["triggers"]))
    separator = form.get("separator")
    return TagLayout(known, separator=None if separator is None else separator.encode())


def _tag(form: Mapping[str, Any]) -> Tag | None:
    begin, content, end = form["begin"], form["content"], form["end"]
    is_json = content["type"] == "json_schema" and content.get("style", "json") == "json"
    ends = [end] if isinstance(end, str) else end
    if not isinstance(begin, str) or not begin or not isinstance(ends, list) or not all(ends):
        return None
    spelled = tuple(one.encode() for one in ends)
    is_text = content["type"] == "any_text" and len(ends) == 1
    if not (is_json or is_text) or _is_ambiguous(spelled):
        return None
    return Tag(begin.encode(), is_json, spelled)


def _is_ambiguous(texts: Sequence[bytes]) -> bool:
    """Whether one of the texts begins with another."""
    return any(later.startswith(one) for one, later in pairwise(sorted(texts)))


class TagReader:
    """Reads an output of a structural tag."""

    def __init__(self, cursor: Cursor, layout: TagLayout) -> None:
        self._cursor, self._layout = cursor, layout

    def read(self) -> Steps[None]:
        """Read the output up to the end of its last tag."""
        cursor, layout = self._cursor, self._layout
        for number in count():
            if layout.triggers and not (yield from cursor.text(layout.triggers, _TEXT)):
                return
            tag = yield from self._next()
            if tag is None or not (yield from self._enclosed(tag, number)):
                return
            if not layout.triggers and layout.separator is None:
                return
            separator = layout.separator or b""
            if not (yield from cursor.begins(separator)):
                return
            cursor.mark(separator, _SEPARATOR)

    def _next(self) -> Steps[Tag | None]:
        """The tag that comes next; None where none comes."""
        for tag in self._layout.tags:
            if (yield from self._cursor.begins(tag.begin)):
                return tag
        return None

    def _enclosed(self, tag: Tag, number: int) -> Steps[bool]:
        """Read a tag. Returns whether it was whole. number: the tag's number in the output, from
        0"""
        cursor = self._cursor
        name = tag.begin.decode()
        around = Part("tool", "punctuation", None, name, number)
        cursor.mark(tag.begin, around)
        if tag.is_json:
            yield from JsonReader(cursor, around).read()
        if not (yield from cursor.text(tag.ends, around if tag.is_json else _text_of(around))):
            return False
        end = next(one for one in tag.ends if cursor.data.startswith(one, cursor.at))
        cursor.mark(end, around)
        return True


def _text_of(around: Part) -> Part:
    return around._replace(role="text")
