"""Owns grammars whose outputs end in time: near its last token, a request is allowed only what can
still be finished."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property

from specguide import native
from specguide.errors import InvalidGuide, OutputTooLong
from specguide.guided.adapters.to_native import native_matcher
from specguide.guided.backend import CompiledGrammar, GrammarWrapper, Outline, Written
from specguide.guided.known.keys import special_token
from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

_LOGGER = logging.getLogger(__name__)
_BYTES_A_CHARACTER = 40
_SPARE = 8
"""Number of tokens by which an end may be farther than the outline says, since items must be
distinct, or since a lexer takes the longest terminal."""
MOST_LATE = 300_000
"""Most characters of an outline whose ends may be found only after the first row; that many take a
third of a second."""
_NO_BOUND = 1 << 62
_POOL_BYTES = 256 << 20  # states of all grammars; a grammar that comes again finds its own


def spare_of(written: Written, *, reads_one_way: bool = False) -> int:
    """Number of tokens by which ends of a grammar may be farther than its outline says. With
    distinct items of few values, the values that are left may be the longest.

    reads_one_way: see Guide
    """
    if written.distinct is None:
        is_lark = written.kind.startswith("grammar") and written.form == "lark"
        return _SPARE if is_lark and not reads_one_way else 0
    spare: int = max(place["spare"] for place in written.distinct["places"])
    return _SPARE + spare


@dataclass(frozen=True)
class EndingGrammar(GrammarWrapper):
    """A grammar that knows how its texts end, or finds it out when a request must know.

    may_be_exact: whether native.Endings' is_exact may turn out true
    num_spare:    tokens by which ends may be farther than the outline says, since a guard forbids
                  some ways to an end
    may_go_on:    outputs are free text, whose last token may be any token behind which the text may
                  end
    """

    endings: native.Endings
    vocab_size: int
    num_bytes: int
    may_be_exact: bool
    num_spare: int
    may_go_on: bool = False

    @property
    def num_least(self) -> int:
        """Number of tokens of the shortest text, its end token included, where each part of the
        text is spelled in its longest tokens. May wait until the ends are found."""
        return self.endings.num_least

    @cached_property
    def num_needed(self) -> int:
        """Number of tokens of the shortest text that the guard allows, its end token included, or a
        few more. Never less than `num_least`, by which the rows decide, though one token may span
        several parts of a text."""
        if self.num_spare == 0:
            return self.num_least
        tried = self.num_least, self.num_least + self.num_spare, _NO_BOUND
        lengths = (_TimedGrammar(self, most).matcher().found_end() for most in tried)
        return max(self.num_least, next((num for num in lengths if num >= 0), 0))

    def has_room(self, max_tokens: int) -> bool:
        """Whether it is already known that the shortest text has at most `max_tokens` tokens, its
        end token included. Does not wait."""
        return self.endings.most_least + self.num_spare <= max_tokens

    def finish(self) -> None:
        """Find all that no request has waited for yet, `num_needed` included. Otherwise a request
        with little room would make others wait during the search."""
        self.endings.build()
        _ = self.num_needed

    def matcher(self) -> Matcher:
        """A new matcher, whose texts may be of any length."""
        inner = self.inner.matcher()
        if not self.may_be_exact or not isinstance(inner, native.Matcher):
            return inner
        return native.EndingMatcher(inner, self.endings, _NO_BOUND)  # for the shared rows

    def within(self, max_tokens: int) -> CompiledGrammar:
        """A grammar of the texts that end within `max_tokens` tokens, the end token included where
        there is room for it.

        Raises OutputTooLong where even the shortest text is longer.
        """
        if not self.has_room(max_tokens + 1) and self.num_needed - 1 > max_tokens:
            raise OutputTooLong(
                f"max_tokens leaves room for {max_tokens} and the shortest output that matches "
                f"the guide takes {self.num_needed - 1} tokens; raise it, or set allow_truncation "
                "to have the output cut off",
                num_needed=self.num_needed - 1,
                param="max_tokens",
            )
        has_room = self.has_room(max_tokens)
        return _TimedGrammar(self, max_tokens if has_room else max(self.num_needed, max_tokens))


@dataclass(frozen=True)
class _TimedGrammar(GrammarWrapper):
    """The grammar that EndingGrammar.within returns."""

    inner: EndingGrammar
    max_tokens: int

    @property
    def num_bytes(self) -> int:
        return self.inner.num_bytes

    def matcher(self) -> native.EndingMatcher:
        grammar = self.inner
        inner = native_matcher(grammar.inner.matcher(), grammar.vocab_size)
        return native.EndingMatcher(
            inner, grammar.endings, self.max_tokens, grammar.num_spare, grammar.may_go_on
        )


class GrammarEndings:
    """Finds out how the texts of grammars over one vocabulary end. Any thread may call it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._pool = native.AutomatonPool(_POOL_BYTES)

    def told(
        self,
        grammar: CompiledGrammar,
        outline: Outline | None,
        num_spare: int,
        *,
        may_go_on: bool = False,
    ) -> CompiledGrammar:
        """The grammar with its ends; the grammar itself where these are not known.

        num_spare: see `spare_of`
        may_go_on: see EndingGrammar
        Raises InvalidGuide where no text of the grammar ends.
        """
        if outline is None:
            return grammar
        is_exact = num_spare == 0 and outline.is_exact
        endings = self._ends(outline, is_exact)
        if endings is None:
            return grammar
        if endings.is_endless and (outline.is_exact or outline.form == "ebnf"):
            raise InvalidGuide(
                "no output that matches the guide ever ends: something in it must contain itself "
                "again, or be repeated too often; let it be left out, or give it another choice"
            )
        if endings.most_least < 0:
            return grammar
        return EndingGrammar(
            grammar,
            endings,
            len(self._vocabulary),
            grammar.num_bytes + _BYTES_A_CHARACTER * len(outline.text),
            is_exact,
            num_spare,
            may_go_on,
        )

    def _ends(self, outline: Outline, is_exact: bool) -> native.Endings | None:
        """The ends that an outline tells; None where the outline cannot be read."""
        may_wait = len(outline.text) <= MOST_LATE
        try:
            return native.Endings(
                outline.form, outline.text, self._trie, self._pool, is_exact, may_wait=may_wait
            )
        except ValueError as error:
            _LOGGER.debug("it is not known how texts of a grammar end: %s", error)
            return None

    @cached_property
    def _trie(self) -> native.TokenTrie:
        """The vocabulary's tokens in a trie, special tokens under names of their own."""
        spelt = [text or special_token(i) for i, text in enumerate(self._vocabulary.token_bytes)]
        return native.TokenTrie(native.NativeVocabulary(spelt, self._vocabulary.eos_token_ids))
