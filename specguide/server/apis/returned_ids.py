"""Owns the token ids of a sample in answers that ask for them, in vLLM's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ToldIds:
    """Token ids of one sample.

    is_told:     they were asked for
    is_streamed: the stream's next piece has the new ones; else the end has all of them
    prompt_ids:  those of its prompt, if each sample returns them; they come with its own first ids
    """

    is_told: bool = False
    is_streamed: bool = False
    prompt_ids: Sequence[int] | None = None
    _untold: list[int] = field(default_factory=list)

    def add(self, token_ids: Sequence[int]) -> None:
        """Take more ids."""
        if self.is_told:
            self._untold += token_ids

    def more(self) -> dict[str, Any]:
        """The fields with new ids for a stream's piece."""
        return self.rest() if self.is_streamed else {}

    def rest(self) -> dict[str, Any]:
        """The fields with all ids that were not returned yet."""
        if not self.is_told:
            return {}
        told = {} if self.prompt_ids is None else {"prompt_token_ids": self.prompt_ids}
        self.prompt_ids, self._untold, own = None, [], self._untold
        return {**told, "token_ids": own}
