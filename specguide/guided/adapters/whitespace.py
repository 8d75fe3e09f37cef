"""Owns the whitespace between two JSON tokens: a few characters of any kind, or a newline and
indentation.

It is bounded, so that no output is endless whitespace, and still allows what `json.dumps(indent=…)`
writes.
"""

from __future__ import annotations

from dataclasses import replace

from specguide.config import GuideConfig


def whitespace_regex(limits: GuideConfig) -> str:
    """A regular expression of the whitespace; empty where none is allowed."""
    if limits.max_whitespace == 0:
        return ""
    indent = (
        rf"|\n(?: {{0,{limits.max_indent}}}|\t{{0,{limits.max_indent}}})"
        if limits.max_indent
        else ""
    )
    return rf"[ \t\n\r]{{0,{limits.max_whitespace}}}{indent}"


def just(limits: GuideConfig, most: int | None) -> GuideConfig:
    """The limits within a tag. most: bound on whitespace that the tag sets, which then holds for
    indentation too; None: it sets none"""
    return limits if most is None else replace(limits, max_whitespace=most, max_indent=0)
