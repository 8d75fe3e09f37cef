"""Owns grammars with few outputs: it lists all token sequences that the masks allow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from specguide.errors import InvalidParams, MatcherError, OutputTooLong, SpecguideError
from specguide.guided.backend import CompiledGrammar, GrammarWrapper
from specguide.guided.compiling.job import settle
from specguide.guided.grammar_future import GrammarFuture
from specguide.guided.matcher import Matcher, allowed_tokens
from specguide.guided.wrappers.endings import EndingGrammar

MAX_SEQUENCES = 4096
"""Most token sequences that are listed."""

_MAX_STEPS = 8 * MAX_SEQUENCES
"""Most tokens that a matcher is asked to accept while they are listed."""


@dataclass(frozen=True, eq=False)
class FiniteGrammar(GrammarWrapper):
    """A grammar with the list of all its outputs.

    sequences: token ids of each output, its end token included, in the order of a depth-first walk:
               outputs with a common prefix are neighbours
    """

    sequences: tuple[tuple[int, ...], ...]

    @property
    def num_bytes(self) -> int:
        return self.inner.num_bytes

    def matcher(self) -> Matcher:
        """A matcher of the grammar itself; it does not use the list."""
        return self.inner.matcher()


class FiniteGrammars:
    """Lists the outputs of compiled grammars, on a thread of its own."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._lister = ThreadPoolExecutor(1, "finite-grammars")
        self._last: tuple[CompiledGrammar, int, FiniteGrammar] | None = None

    def submit(self, compiled: GrammarFuture, max_tokens: int) -> GrammarFuture:
        """A future FiniteGrammar of a grammar, with its outputs of at most `max_tokens` tokens.

        Its error is the error of `compiled`, or that of `admitted_sequences`, or OutputTooLong
        where there are no such outputs.
        """
        listed = GrammarFuture()
        compiled.add_done_callback(lambda _: self._put(compiled, listed, max_tokens))
        return listed

    def close(self) -> None:
        """Stop. Futures of grammars that are not listed yet are never settled."""
        self._lister.shutdown(wait=False, cancel_futures=True)

    def _put(self, compiled: GrammarFuture, listed: GrammarFuture, max_tokens: int) -> None:
        try:
            self._lister.submit(self._list, compiled, listed, max_tokens)
        except RuntimeError:  # it is closed, or the interpreter ends
            listed.cancel()

    def _list(self, compiled: GrammarFuture, listed: GrammarFuture, max_tokens: int) -> None:
        if listed.cancelled():
            return
        try:
            settle([listed], self._finite(compiled.result(), max_tokens))
        except SpecguideError as error:
            settle([listed], error)
        except Exception as cause:  # e.g. of a library, or of a user's matcher
            settle([listed], MatcherError(f"its outputs could not be listed: {cause}"))

    def _finite(self, grammar: CompiledGrammar, max_tokens: int) -> FiniteGrammar:
        """The grammar with the list of its outputs. The last one is kept, since all samples of a
        prompt ask for the same one."""
        if self._last is None or self._last[0] is not grammar or self._last[1] != max_tokens:
            sequences = admitted_sequences(grammar.matcher(), self._vocab_size, max_tokens)
            if not sequences:
                raise _too_long(grammar, max_tokens)
            self._last = grammar, max_tokens, FiniteGrammar(grammar, sequences)
        return self._last[2]


def admitted_sequences(
    matcher: Matcher, vocab_size: int, max_tokens: int
) -> tuple[tuple[int, ...], ...]:
    """Token ids of all outputs of at most `max_tokens` tokens, the last of which is an end token.

    Several of them may spell the same text. Raises InvalidParams naming `faithful` where there are
    more than MAX_SEQUENCES, or where it takes too long to find them; MatcherError if the
    matcher refuses a token that its row allows.
    """
    sequences: list[tuple[int, ...]] = []
    path: list[int] = []
    row = np.zeros((vocab_size + 31) // 32, dtype=np.int32)
    ways = [_allowed(matcher, row)] if max_tokens > 0 else []
    num_steps = 0
    while ways:
        token = next(ways[-1], None)
        if token is None:
            ways.pop()
            if path:
                path.pop()
                matcher.rollback(1)
            continue
        num_steps += 1
        if not matcher.accept(token):
            raise MatcherError(f"its matcher refuses token {token}, which its row allows")
        path.append(token)
        if matcher.is_terminated:
            sequences.append(tuple(path))
        if len(sequences) > MAX_SEQUENCES or num_steps > _MAX_STEPS:
            raise _too_many(len(sequences), num_steps)
        goes_on = not matcher.is_terminated and len(path) < max_tokens
        ways.append(_allowed(matcher, row) if goes_on else iter(()))
    return tuple(sequences)


def _allowed(matcher: Matcher, row: np.ndarray) -> Iterator[int]:
    """The tokens that may follow. Raises InvalidParams where already these are too many."""
    matcher.fill(row)
    tokens = allowed_tokens(row)
    if len(tokens) > MAX_SEQUENCES:
        raise InvalidParams(
            f"faithful takes guides of at most {MAX_SEQUENCES} token sequences, and in this one "
            f"{len(tokens)} tokens may follow at one place: {_ADVICE}",
            param="faithful",
        )
    return iter(tokens.tolist())


def _too_long(grammar: CompiledGrammar, max_tokens: int) -> OutputTooLong:
    known = grammar.num_needed if isinstance(grammar, EndingGrammar) else 0
    return OutputTooLong(
        f"max_tokens leaves room for {max_tokens} and no output that matches the guide is as short"
        + (f": the shortest takes {known} tokens" if known > max_tokens else "")
        + "; raise it",
        num_needed=max(known, max_tokens + 1),
        param="max_tokens",
    )


def _too_many(num_found: int, num_steps: int) -> InvalidParams:
    return InvalidParams(
        f"faithful takes guides of at most {MAX_SEQUENCES} token sequences, and this one has more: "
        f"{num_found} were found in {num_steps} steps, and not all; {_ADVICE}",
        param="faithful",
    )


_ADVICE = "list fewer or shorter values, lower max_tokens, or leave faithful out"
