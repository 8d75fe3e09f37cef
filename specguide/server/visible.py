"""Owns the text of tokens in which some special tokens stand by their names, since they mean
something to a parser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specguide.tokenizer import Tokenizer


class VisibleText:
    """Of tokens that come one after another, behind a prompt. is_guided: as for
    Tokenizer.detokenizer"""

    def __init__(
        self,
        tokenizer: Tokenizer,
        special_ids: Iterable[int],
        prompt_ids: Sequence[int] = (),
        *,
        is_guided: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._names = {
            token: tokenizer.decode([token], skip_special_tokens=False) for token in special_ids
        }
        self._detokenizer = tokenizer.detokenizer(prompt_ids, is_guided=is_guided)

    def add(self, token_ids: Sequence[int], *, is_last: bool = False) -> str:
        """What becomes certain."""
        text = ""
        for token in token_ids:
            name = self._names.get(token)
            if name is None:
                text += self._detokenizer.add(token)
            else:
                text += self._detokenizer.flush() + name
                self._detokenizer = self._tokenizer.detokenizer(
                    is_guided=True
                )  # the name begins no text
        return text + self._detokenizer.flush() if is_last else text
