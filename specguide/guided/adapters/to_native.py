"""Owns the conversion of Python matchers to what the C++ core takes."""

from __future__ import annotations

from specguide import native
from specguide.guided.matcher import Matcher


def native_matcher(matcher: Matcher | native.Matcher, vocab_size: int) -> native.Matcher:
    """The matcher itself where it is native; else a native matcher that calls it, with the GIL.

    vocab_size: width of the logits
    """
    if isinstance(matcher, native.Matcher):
        return matcher
    return native.PythonMatcher(matcher, vocab_size)
