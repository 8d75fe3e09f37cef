"""Owns grammars written by users: matchers of their own, in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidGuide
from specguide.guided.matcher import Matcher

_METHODS = ("accept", "fill", "rollback", "is_terminated", "forced_tokens")


@dataclass(frozen=True)
class UserGrammar:
    """Takes the place of a compiled grammar. Its matchers are called from worker threads, one at a
    time, with the GIL.

    Raises InvalidGuide where `matcher` does.
    """

    make: Callable[[], Any]
    backend = "user"
    num_bytes = 0

    def __post_init__(self) -> None:
        self.matcher()

    def matcher(self) -> Matcher:
        """A new matcher. Raises InvalidGuide when what `make` makes lacks a part of the contract,
        or it raises."""
        try:
            matcher: Matcher = self.make()
            missing = [name for name in _METHODS if not hasattr(matcher, name)]
        except Exception as error:
            raise InvalidGuide(
                f"the guide's matcher cannot be made: {type(error).__name__}: {error}",
                param="matcher",
            ) from error
        if missing:
            raise InvalidGuide(
                f"the guide's matcher lacks {', '.join(missing)}; see "
                "specguide.guided.matcher.Matcher",
                param="matcher",
            )
        return matcher
