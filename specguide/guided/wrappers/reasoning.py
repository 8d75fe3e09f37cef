"""Owns reasoning sections: free text before a guided answer, in front of any compiled grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from specguide import native
from specguide.errors import InvalidParams, OutputTooLong
from specguide.guide import Reasoning
from specguide.guided.adapters.to_native import native_matcher
from specguide.guided.backend import CompiledGrammar, GrammarWrapper
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.tokenizer.vocabulary import Vocabulary

_CLOSING = {"<": ">", "[": "]"}
"""The brackets around special tokens inside a mark: closing ones by their opening ones."""


@dataclass(frozen=True)
class ReasonedGrammar(GrammarWrapper):
    """A grammar with a reasoning section in front of its texts."""

    end: tuple[native.ReasoningMark, ...]
    begin: tuple[native.ReasoningMark, ...]
    max_tokens: int | None
    vocab_size: int
    instead: tuple[native.ReasoningMark, ...] | None = None
    cut_by: tuple[int, ...] = ()

    @property
    def num_bytes(self) -> int:
        return self.inner.num_bytes

    def matcher(self) -> native.ReasoningMatcher:
        """A new matcher at the start of the section."""
        answer = native_matcher(self.inner.matcher(), self.vocab_size)
        return native.ReasoningMatcher(
            answer, self.end, self.begin, self.max_tokens, self.instead, self.cut_by
        )


class ReasoningSections:
    """Puts reasoning sections in front of grammars over one vocabulary. The first use of a mark
    takes some milliseconds, and memory for some rows.

    token_id: gives the token of a text, for marks that are special tokens
    """

    def __init__(self, vocabulary: Vocabulary, token_id: Callable[[str], int | None]) -> None:
        self._vocabulary, self._token_id = vocabulary, token_id
        self._marks: dict[str, native.ReasoningMark] = {}

    def before(self, grammar: CompiledGrammar, reasoning: Reasoning) -> ReasonedGrammar:
        """The grammar with a reasoning section in front. Raises InvalidParams where the vocabulary
        cannot spell a mark."""
        cut_by = None if reasoning.cut_by is None else self._special(reasoning.cut_by)
        return ReasonedGrammar(
            grammar,
            self._marks_of(reasoning.end),
            () if reasoning.begin is None else self._marks_of(reasoning.begin),
            reasoning.max_tokens,
            len(self._vocabulary),
            self._marks_of(reasoning.instead or "") if self._may_be_left_out(reasoning) else None,
            () if cut_by is None else (cut_by,),
        )

    def _may_be_left_out(self, reasoning: Reasoning) -> bool:
        """Whether the section may be missing: its first token must then differ from the first token
        of the text that comes instead."""
        if reasoning.instead is None or reasoning.begin is None:
            return False
        parts = (
            mark_parts(mark, self._special)[:1] for mark in (reasoning.begin, reasoning.instead)
        )
        firsts = [first for part in parts for first in part]
        return len(set(firsts)) == len(firsts) and None not in map(self._special, firsts)

    def ending(
        self, answer: EndingGrammar, reasoning: Reasoning | None, max_tokens: int
    ) -> CompiledGrammar:
        """A grammar, with or without a reasoning section, whose outputs end within `max_tokens`
        tokens.

        Raises OutputTooLong where there is no such output, and the errors of `before`.
        """
        if reasoning is None:
            return answer.within(max_tokens)
        num_marked = len(((reasoning.begin or "") + reasoning.end).encode())  # tokens, at most
        num_needed = num_marked + answer.num_needed - 1
        room = max_tokens - num_needed
        if room < 0 and reasoning.instead == "" and self._may_be_left_out(reasoning):
            return answer.within(max_tokens)
        if room < 0:
            raise OutputTooLong(
                f"max_tokens leaves room for {max_tokens}, and the shortest output that matches "
                f"the guide takes {num_needed} tokens, the marks of the reasoning section "
                "included; raise it, or set allow_truncation to have the output cut off",
                num_needed=num_needed,
                param="max_tokens",
            )
        room = max(0, room - 1)  # for the end token
        most = room if reasoning.max_tokens is None else min(room, reasoning.max_tokens)
        return self.before(answer.within(max_tokens), replace(reasoning, max_tokens=most))

    def _marks_of(self, text: str) -> tuple[native.ReasoningMark, ...]:
        """A text as marks, in which special tokens are marks of their own."""
        return tuple(map(self._mark, mark_parts(text, self._special)))

    def _special(self, text: str) -> int | None:
        """The id of a special token; None for other texts."""
        return self._vocabulary.special_id(self._token_id(text))

    def _mark(self, text: str) -> native.ReasoningMark:
        if text not in self._marks:
            token = self._special(text)
            mark = text.encode() if token is None else token
            try:
                self._marks[text] = native.ReasoningMark(self._vocabulary.native, mark)
            except ValueError as error:
                raise InvalidParams(
                    f"reasoning cannot begin or end with {text!r}: {error}", param="reasoning"
                ) from None
        return self._marks[text]


def mark_parts(text: str, special: Callable[[str], int | None]) -> list[str]:
    """The parts of a mark: each special token in it is a part of its own.

    special: gives the special token that a text is
    """
    if special(text) is not None:
        return [text]
    cuts = [0, len(text)]
    for start, end in _bracketed(text):
        if special(text[start:end]) is not None:
            cuts += start, end
    cuts.sort()
    return [text[start:end] for start, end in pairwise(cuts) if start < end]


def _bracketed(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each innermost pair of brackets."""
    start = None
    for at, character in enumerate(text):
        if character in _CLOSING:
            start = at
        elif start is not None and character == _CLOSING[text[start]]:
            yield start, at + 1
            start = None
