"""Owns the limits of size and depth that every kind of guide is held to before it is compiled."""

from __future__ import annotations

import re
from itertools import accumulate

from specguide.config import GuideConfig
from specguide.errors import GuideLimitExceeded, InvalidGuide
from specguide.guide import Guide

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKET = re.compile(r"\\.|[^\[\](){}]", re.DOTALL)


def check_limits(guide: Guide, limits: GuideConfig) -> str:
    """The guide's canonical text. Raises GuideLimitExceeded naming `max_source_bytes` or `max_depth`.

    The depth of a schema or a tag is that of its JSON; of a regular expression or a grammar, that of its brackets.
    """
    try:
        source = guide.source()
        num_bytes = len(source.encode())
    except RecursionError:
        raise _too_deep(guide, limits) from None
    except UnicodeEncodeError as error:
        raise InvalidGuide(f"{guide.kind} is not Unicode text: {error}", param=guide.kind) from None
    if num_bytes > limits.max_source_bytes:
        raise GuideLimitExceeded(f"the {guide.kind} has {num_bytes} bytes, more than max_source_bytes "
                                 f"({limits.max_source_bytes}); make it smaller, or raise the limit",
                                 limit="max_source_bytes")
    brackets = _NO_BRACKET.sub("", source if guide.kind in ("regex", "grammar") else _STRING.sub("", source))
    if max(accumulate(1 if bracket in "([{" else -1 for bracket in brackets), default=0) > limits.max_depth:
        raise _too_deep(guide, limits)
    return source


def _too_deep(guide: Guide, limits: GuideConfig) -> GuideLimitExceeded:
    return GuideLimitExceeded(f"the {guide.kind} is nested deeper than max_depth ({limits.max_depth}); make it flatter "
                              "or raise the limit", limit="max_depth")
