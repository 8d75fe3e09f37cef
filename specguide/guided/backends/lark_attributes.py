"""Owns the attributes of rules in a Lark grammar, which stand in brackets behind a rule's name."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Neither goes over a character more than a few times: what is not closed is taken up to the line's end.
_HEAD = re.compile(r"\s*[?!]*[a-zA-Z_]\w*(?:\.-?\d+)?\s*\[")
_PART = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)|/(?:[^/\\]|\\.)*(?:/|\\?$)|(\w+)(\s*=)?|[^\]]')


def lark_attributes(source: str) -> Iterator[str]:
    """Names of the attributes that have a value, as `max_tokens` in `text[max_tokens=5]: /.*/`."""
    for line in source.splitlines():
        head = _HEAD.match(line)
        place = head.end() if head else len(line)
        while part := _PART.match(line, place):
            if part[2]:
                yield part[1]
            place = part.end()
