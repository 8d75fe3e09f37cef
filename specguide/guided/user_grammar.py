"""Owns grammars written by users, whose matchers are Python objects of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidGuide
from specguide.guided.matcher import Matcher, Row

_METHODS = ("accept", "fill", "rollback", "is_terminated", "forced_tokens")


@dataclass(frozen=True)
class UserGrammar:
    """Stands in for a compiled grammar. Its matchers are called from worker threads, one thread at
    a time, with the GIL.

    Raises InvalidGuide where `matcher` does.
    """

    make: Callable[[], Any]
    eos_token_ids: Sequence[int]
    backend = "user"
    num_bytes = used_bytes = 0

    def __post_init__(self) -> None:
        self.matcher()

    def matcher(self) -> Matcher:
        """A new matcher. Raises InvalidGuide when `make` raises, or when what it makes does not
        follow the contract."""
        try:
            matcher: Matcher = self.make()
            missing = [name for name in _METHODS if not hasattr(matcher, name)]
            is_terminated = not missing and _is_terminated(matcher)
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
        if is_terminated:
            raise InvalidGuide(
                f"the guide's matcher is terminated before it has taken a token: {_ENDS}",
                param="matcher",
            )
        return _EndingMatcher(matcher, self.eos_token_ids)


_ENDS = "it must be only after it has accepted an end token, since output after that is free"


class _EndingMatcher:
    """A user's matcher, made to fail when it terminates without an end token. Rows of a terminated
    matcher are free, so output behind it would not be guided."""

    def __init__(self, matcher: Matcher, eos_token_ids: Sequence[int]) -> None:
        self._matcher = matcher
        self._eos_token_ids = frozenset(eos_token_ids)

    def accept(self, token: int) -> bool:
        is_taken = self._matcher.accept(token)
        if is_taken and token not in self._eos_token_ids and self.is_terminated:
            raise ValueError(f"it is terminated by token {token}, which is no end token: {_ENDS}")
        return is_taken

    def fill(self, row: Row) -> None:
        self._matcher.fill(row)

    def rollback(self, n: int) -> None:
        self._matcher.rollback(n)

    @property
    def is_terminated(self) -> bool:
        return _is_terminated(self._matcher)

    def forced_tokens(self) -> Sequence[int]:
        return self._matcher.forced_tokens()


def _is_terminated(matcher: Any) -> bool:
    """Whether it is terminated; `is_terminated` may be a property or a method."""
    answer = matcher.is_terminated
    return bool(answer() if callable(answer) else answer)
