"""Owns how commands read numbers of things, of which there must be one."""

from __future__ import annotations

from argparse import ArgumentTypeError


def one_or_more(text: str) -> int:
    """An argument. Raises ArgumentTypeError where it is less."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"it must be an integer ≥ 1, found {text!r}")
    return int(text)
