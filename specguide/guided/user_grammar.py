"""Owns grammars written by users: matchers of their own, in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidGuide
from specguide.guided.matcher import Matcher, Row

_METHODS = ("accept", "fill", "rollback", "is_terminated", "forced_tokens")


@dataclass(frozen=True)
class UserGrammar:
    """Stands where a compiled grammar does. Its matchers are called from worker threads, one at a time, with the GIL.

    Raises InvalidGuide when what `make` makes lacks a part of the contract, or it raises.
    """

    make: Callable[[], Any]
    backend = "user"
    num_bytes = 0

    def __post_init__(self) -> None:
        try:
            matcher = self.make()
        except Exception as error:
            raise InvalidGuide(f"the guide's matcher cannot be made: {type(error).__name__}: {error}",
                               param="matcher") from error
        missing = [name for name in _METHODS if not hasattr(matcher, name)]
        if missing:
            raise InvalidGuide(f"the guide's matcher lacks {', '.join(missing)}; see specguide.guided.matcher.Matcher",
                               param="matcher")

    def matcher(self) -> Matcher:
        """A new one; one that cannot be made fails as if it had been, so that its request alone ends."""
        try:
            matcher: Matcher = self.make()
        except Exception as error:
            return _Unmade(error)
        return matcher


@dataclass
class _Unmade:
    """A matcher that could not be made."""

    cause: Exception
    is_terminated = False

    def fill(self, row: Row) -> None:
        raise RuntimeError(f"the guide's matcher cannot be made: {self.cause}") from self.cause

    def accept(self, token: int) -> bool:
        return False

    def rollback(self, n: int) -> None:
        pass

    def forced_tokens(self) -> list[int]:
        return []
