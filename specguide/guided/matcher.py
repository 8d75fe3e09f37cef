"""Owns the matcher contract: a request's grammar state, with the same meaning in all backends.

A compiled grammar is shared. A matcher belongs to one request, and only the grammar executor
changes it. The native adapters, the Python adapters of both grammar libraries and matchers written
by users all follow this contract, and the same conformance tests run over each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.int32]
"""A bitmask row: ceil(vocab / 32) int32 words; bit (token % 32) of word (token // 32) is 1 when the
token is allowed."""


def allowed_tokens(row: Row) -> npt.NDArray[np.int64]:
    """The token ids that a row allows, in ascending order."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))


@runtime_checkable
class Matcher(Protocol):
    """The grammar state of one request.

    An exception means that the library underneath failed. It ends this request alone; an exception
    at a draft ends it only if the target takes that draft. The matcher is then not used any more,
    and a new matcher of its grammar continues behind the verified tokens. Methods of one matcher
    are never called by two threads at the same time, but any thread may call them.
    """

    def accept(self, token: int) -> bool:
        """Take `token` if the grammar allows it here. Returns whether it does; a refused token
        changes nothing.

        Taking an end token terminates the matcher. A terminated matcher refuses every token.
        """
        ...

    def fill(self, row: Row) -> None:
        """Write the row of what may follow: every word of `row` (int32, [ceil(vocab / 32)]).

        A bit is 1 exactly when `accept` would take that token, so padding ids, special tokens and
        empty tokens are 0, and every end token is 1 exactly where the grammar may end. The state
        stays as it is. Raises when the matcher is terminated, and then writes nothing.
        """
        ...

    def rollback(self, n: int) -> None:
        """Take back the last `n` ≥ 0 accepted tokens, an end token included.

        Raises ValueError and changes nothing when fewer than `n` were accepted.
        """
        ...

    @property
    def is_terminated(self) -> bool:
        """True from the moment an end token was accepted until it is rolled back."""
        ...

    def forced_tokens(self) -> Sequence[int]:
        """Token ids whose text must follow in every output, possibly none; the state stays as it
        is.

        The text is forced, but not its spelling: other tokens with the same text may be allowed
        too. The tokens can be accepted one after the other. A drafter may propose them;
        verification still checks them.
        """
        ...


@dataclass
class FailedMatcher:
    """Stands in for a matcher that could not be made, so that its request ends with the cause, and
    no other request does."""

    cause: Exception
    is_terminated = False

    def fill(self, row: Row) -> None:
        raise RuntimeError(f"its matcher could not be made: {self.cause}") from self.cause

    def accept(self, token: int) -> bool:
        return False

    def rollback(self, n: int) -> None:
        pass

    def forced_tokens(self) -> list[int]:
        return []
