"""Owns how the token ids of a sample are told where they are asked for: as vLLM does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ToldIds:
    """Token ids of one sample.

    is_told:     they are asked for
    is_streamed: each is told with the next piece of the stream; else all are at the end
    prompt_ids:  those of its prompt, where each sample tells them, with the first of its own
    """

    is_told: bool = False
    is_streamed: bool = False
    prompt_ids: Sequence[int] | None = None
    _untold: list[int] = field(default_factory=list)

    def add(self, token_ids: Sequence[int]) -> None:
        """More of them."""
        if self.is_told:
            self._untold += token_ids

    def more(self) -> dict[str, Any]:
        """What a piece of a stream tells."""
        return self.rest() if self.is_streamed else {}

    def rest(self) -> dict[str, Any]:
        """All that has not been told."""
        if not self.is_told:
            return {}
        told = {} if self.prompt_ids is None else {"prompt_token_ids": self.prompt_ids}
        self.prompt_ids, self._untold, own = None, [], self._untold
        return {**told, "token_ids": own}
