"""Owns the text of tokens in which some special tokens stand by their names, since they mean something to a parser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specguide.tokenizer import Tokenizer


class VisibleText:
    """Of tokens that come one after another."""

    def __init__(self, tokenizer: Tokenizer, special_ids: Iterable[int]) -> None:
        self._tokenizer = tokenizer
        self._names = {token: tokenizer.decode([token], skip_special_tokens=False) for token in special_ids}
        self._detokenizer = tokenizer.detokenizer()

    def add(self, token_ids: Sequence[int], *, is_last: bool = False) -> str:
        """What becomes certain."""
        text = ""
        for token in token_ids:
            name = self._names.get(token)
            if name is None:
                text += self._detokenizer.add(token)
            else:
                text += self._detokenizer.flush() + name
                self._detokenizer = self._tokenizer.detokenizer()
        return text + self._detokenizer.flush() if is_last else text
