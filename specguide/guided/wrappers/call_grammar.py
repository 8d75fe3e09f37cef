"""Owns the grammar of messages with calls of many tools, whose arguments are compiled when a call
has come as far as its tool's name; see call_texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from specguide import native
from specguide.errors import EngineError, SpecguideError
from specguide.guide import Guide
from specguide.guided.adapters.to_native import native_vocabulary
from specguide.guided.backend import CompiledGrammar, GrammarWrapper, Written
from specguide.guided.grammar_future import GrammarFuture
from specguide.guided.known.call_texts import (
    BEHIND_RULE,
    CALL_RULE,
    CallTexts,
    DeferredCalls,
    first_of,
    lark_terms,
)
from specguide.tokenizer.vocabulary import Vocabulary

_MOST_LEADS = 64


@dataclass(frozen=True)
class CallGrammar(GrammarWrapper):
    """A message's grammar whose matchers have the parts of tools compiled as they come to them."""

    calls: native.Calls
    num_bytes: int

    def matcher(self) -> native.CallMatcher:
        """A new matcher at the start of the message."""
        return native.CallMatcher(self.calls)


class CallGrammars:
    """Makes the grammars of messages over one vocabulary. Any thread may call it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.may_defer = lru_cache(_MOST_LEADS)(self._may_defer)

    def _may_defer(self, lead: bytes, after: bytes | None) -> bool:
        """Whether no token reaches from a tool's name over the lead into the arguments. after: see
        CallTexts"""
        if b"\xff" in lead:  # a special token
            return True
        reaching = (token for token in self._vocabulary.token_bytes if lead in token[:-1])
        if after is None:
            return next(reaching, None) is None
        over = [lead + bytes([byte]) for byte in after]
        return not any(one in token for token in reaching for one in over)

    def grammar(
        self,
        inner: CompiledGrammar,
        written: Written,
        guide: Guide,
        submit: Callable[[Guide], GrammarFuture],
    ) -> CallGrammar:
        """The grammar of a message that some tools' arguments are left out of. submit: compiles a
        part"""
        known = DeferredCalls(**written.calls or {})
        texts = CallTexts(**known.texts)
        lead = texts.lead_bytes
        first = first_of(lead)
        before = [bytes.fromhex(text) for text in (texts.opening, texts.later) if text is not None]
        parts = _Parts(inner, written.text, texts, known.schemas, guide.source(), submit)
        calls = native.Calls(
            starts=[
                (text + name.encode() + first, tool)
                for tool, name in enumerate(texts.names)
                for text in before
            ],
            lead_len=len(lead) - len(first),
            are_json=texts.arguments is None,
            has_part=known.has_part,
            vocabulary=self._words,
            part=parts.matcher,
        )
        return CallGrammar(inner, calls, inner.num_bytes + len(parts.source))

    @cached_property
    def _words(self) -> native.NativeVocabulary:
        return native_vocabulary(self._vocabulary)


@dataclass(frozen=True)
class _Parts:
    """Makes the matchers of a message's parts; see CallGrammars.grammar."""

    inner: CompiledGrammar
    lark: str
    texts: CallTexts
    schemas: Sequence[tuple[int, int]]
    source: str
    submit: Callable[[Guide], GrammarFuture]

    def matcher(self, tool: int, num_left: int) -> native.Matcher:
        """A matcher for the part of a tool, which begins `num_left` bytes before the end of the
        lead to its arguments; for tool -1, one for the whole message.

        Raises EngineError, which names the tool.
        """
        found = (self.inner if tool < 0 else self._part(tool, num_left)).matcher()
        assert isinstance(found, native.Matcher)
        return found

    def _part(self, tool: int, num_left: int) -> CompiledGrammar:
        try:
            guide = Guide(grammar=self._grammar(tool, num_left), key_order="schema")
            return self.submit(guide).result()
        except SpecguideError as error:
            raise EngineError(
                f"the arguments of the tool {self.texts.names[tool]!r} cannot be enforced: {error}"
            ) from error

    def _grammar(self, tool: int, num_left: int) -> str:
        whole = self.texts.lead_bytes
        lead = lark_terms(whole[len(whole) - num_left :])
        arguments = f"arguments: {lead} {self._arguments(tool)}"
        return f"start: arguments {BEHIND_RULE}\n{arguments}{self._shared}"

    def _arguments(self, tool: int) -> str:
        """The term of a tool's arguments, and the rules that it needs beside those that are
        shared."""
        if self.texts.arguments is None:
            begin, end = self.schemas[tool]
            return f"%json {self.source[begin:end]}"
        begin, end, first, last = self.texts.arguments[tool]
        return f"{self.source[begin:end]}{self.source[first:last]}"

    @cached_property
    def _shared(self) -> str:
        """The rules that all parts have."""
        return self.lark[self.lark.index(CALL_RULE) :]
