"""Owns the check whether a tool call is one that its data set accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Accepted = Mapping[str, Mapping[str, Sequence[Any]]]
"""A call in the form of the Berkeley Function-Calling Leaderboard: by its name, the accepted values
of each argument; an empty string among them means that the argument may be left out."""


def is_right(accepted: Accepted, text: str) -> bool:
    """Whether a text is {"name": …, "arguments": {…}} with accepted values. Like the leaderboard,
    it compares texts without case, spaces and the punctuation ,./-_*^'"."""
    try:
        call = json.loads(text)
        arguments = accepted[call["name"]]
        given = dict(call["arguments"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    if given.keys() - arguments.keys():
        return False
    return all(
        _is_one_of(values, given[name]) if name in given else "" in values
        for name, values in arguments.items()
    )


def _is_one_of(values: Sequence[Any], value: Any) -> bool:
    return any(_equal(one, value) for one in values)


def _equal(accepted: Any, value: Any) -> bool:
    if isinstance(accepted, Mapping) and isinstance(value, Mapping):
        return not value.keys() - accepted.keys() and all(
            _is_one_of(values, value[name]) if name in value else "" in values
            for name, values in accepted.items()
        )
    if isinstance(accepted, list) and isinstance(value, list):
        return len(accepted) == len(value) and all(map(_equal, accepted, value))
    if isinstance(accepted, str) and isinstance(value, str):
        return _plain(accepted) == _plain(value)
    return isinstance(accepted, bool) == isinstance(value, bool) and bool(accepted == value)


def _plain(text: str) -> str:
    return "".join(c for c in text.casefold() if not c.isspace() and c not in ",./-_*^'\"")
