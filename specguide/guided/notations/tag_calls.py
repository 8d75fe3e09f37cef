"""Owns structural tags with many tags behind one trigger: how these begin, where their JSON is
compiled only when one of them has begun; see known.call_texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specguide.guided.known.call_texts import LEAST_DEFERRED, CallTexts
from specguide.guided.known.keys import JSON_END

_JSON = {"type", "json_schema"}
_LEFT_OUT = {"type": "const_string", "value": "{"}
_ANY_TEXT = {"type": "any_text"}


def tag_texts(tag: Mapping[str, Any]) -> CallTexts | None:
    """How the tags of a structural tag begin; None where that does not distinguish them, or there
    are few."""
    node = tag["format"]
    tags = node.get("tags", ())
    if node["type"] != "triggered_tags" or len(tags) < LEAST_DEFERRED or node.get("excludes"):
        return None
    if len(node["triggers"]) > 1 or not all(_is_json(one) for one in tags):
        return None
    trigger, begins = node["triggers"][0], [one["begin"] for one in tags]
    lead = begins[0][-1:]
    names = [begin[len(trigger) : -1] for begin in begins]
    are_told = (
        lead.isascii()
        and all(begin.startswith(trigger) and begin.endswith(lead) for begin in begins)
        and all(names)
        and not any(lead in name for name in names)
        and len(set(names)) == len(names)
    )
    if not are_told or any(_may_begin(trigger, one["end"]) for one in tags):
        return None
    text = trigger.encode()
    before = [text.hex(), (JSON_END + text).hex()]
    return CallTexts(before=before, lead=lead.encode().hex(), names=names, num_schemas=0)


def _is_json(tag: Mapping[str, Any]) -> bool:
    """Whether a tag is JSON between two texts, and the second one also ends a number."""
    content, end = tag["content"], tag["end"]
    if content.get("type") != "json_schema" or content.keys() != _JSON:
        return False
    if not isinstance(tag["begin"], str) or not isinstance(end, str) or not end:
        return False
    return end[0].isascii() and not end[0].isalnum() and end[0] not in "+-.\"'"


def _may_begin(trigger: str, text: str) -> bool:
    """Whether a trigger may begin inside a text."""
    beginnings = (trigger[:length] for length in range(1, len(trigger)))
    return trigger in text or text.endswith(tuple(beginnings))


def left_out(
    tag: Mapping[str, Any], are_left_out: Sequence[bool], *, is_reached: bool
) -> dict[str, Any]:
    """A structural tag without the JSON of some of its tags. is_reached: see CallTexts"""
    instead = _ANY_TEXT if is_reached else _LEFT_OUT
    node = tag["format"]
    tags = [
        {**one, "content": instead} if is_out else one
        for one, is_out in zip(node["tags"], are_left_out, strict=True)
    ]
    return {**tag, "format": {**node, "tags": tags}}


def rest_of(
    tag: Mapping[str, Any], number: int, before: str, left: Mapping[str, Any]
) -> dict[str, Any]:
    """The rest of a text behind the beginning of one of the tags: its JSON, and what may follow.

    before: the text in front of the JSON
    left:   the tag as `left_out` makes it
    """
    node = tag["format"]
    one = {"type": "tag", **node["tags"][number], "begin": before}
    if node.get("stop_after_first"):
        return {**tag, "format": one}
    others = {**left["format"], "at_least_one": False}
    return {**tag, "format": {"type": "sequence", "elements": [one, others]}}
