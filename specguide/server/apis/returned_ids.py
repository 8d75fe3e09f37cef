"""Owns the token ids of a sample in answers that ask for them, in vLLM's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ReturnedIds:
    """Token ids of one sample.

    is_asked:    they were asked for
    is_streamed: the stream's next piece has the new ones; else the end has all of them
    prompt_ids:  those of its prompt, if each sample returns them; they come with its own first ids
    """

    is_asked: bool = False
    is_streamed: bool = False
    prompt_ids: Sequence[int] | None = None
    _unsent: list[int] = field(default_factory=list)

    def add(self, token_ids: Sequence[int]) -> None:
        """Take more ids."""
        if self.is_asked:
            self._unsent += token_ids

    def more(self) -> dict[str, Any]:
        """The fields with new ids for a stream's piece."""
        return self.rest() if self.is_streamed else {}

    def rest(self) -> dict[str, Any]:
        """The fields with all ids that were not returned yet."""
        if not self.is_asked:
            return {}
        prompt = {} if self.prompt_ids is None else {"prompt_token_ids": self.prompt_ids}
        self.prompt_ids, self._unsent, own = None, [], self._unsent
        return {**prompt, "token_ids": own}
