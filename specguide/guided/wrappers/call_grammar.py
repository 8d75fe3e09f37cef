"""Owns the grammar of messages with calls of many tools. A tool's arguments are compiled only when
a call has reached its tool's name; see call_texts."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from specguide import native
from specguide.errors import EngineError, SpecguideError
from specguide.guide import Guide
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
from specguide.guided.known.keys import special_token
from specguide.guided.notations.tag_calls import left_out, rest_of
from specguide.tokenizer.vocabulary import Vocabulary

_MOST_LEADS = 64


@dataclass(frozen=True)
class CallGrammar(GrammarWrapper):
    """A message's grammar. Its matchers have the part of a tool compiled when they come to it."""

    calls: native.Calls
    num_bytes: int

    def matcher(self) -> native.CallMatcher:
        """A new matcher at the start of the message."""
        return native.CallMatcher(self.calls)


class CallGrammars:
    """Makes the grammars of messages over one vocabulary. Any thread may call it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._reaching = lru_cache(_MOST_LEADS)(self._find_reaching)

    def with_tokens(self, texts: CallTexts) -> CallTexts:
        """The texts, with `is_reached` set: whether a token may reach from a tool's name into the
        arguments."""
        return replace(texts, is_reached=bool(self._reaching(texts.lead_bytes, texts.after_bytes)))

    def _find_reaching(self, lead: bytes, after: bytes | None) -> Sequence[int]:
        """The tokens that reach from a tool's name over the lead into the arguments; none where no
        such token continues as arguments can begin. after: see CallTexts"""
        if not lead or b"\xff" in lead:  # no other token contains special tokens
            return ()
        spelt = self._vocabulary.token_bytes
        reaching = [i for i, token in enumerate(spelt) if lead in token and lead in token[:-1]]
        over = None if after is None else [lead + bytes([byte]) for byte in after]
        if over is not None and not any(one in spelt[token] for token in reaching for one in over):
            return ()
        return reaching

    def grammar(
        self,
        inner: CompiledGrammar,
        written: Written,
        guide: Guide,
        submit: Callable[[Guide], GrammarFuture],
    ) -> CallGrammar:
        """The grammar of a message in which some tools' arguments are left out. submit: compiles a
        part"""
        known = DeferredCalls(**written.calls or {})
        texts = CallTexts(**known.texts)
        lead = texts.lead_bytes
        first = first_of(lead)
        held_texts = texts.held_bytes
        firsts = [first] if lead else [special_token(token) for token in texts.firsts]
        source = guide.source()
        parts: _Parts = (
            _PartsOfTags(inner, texts, source, submit, known.has_part)
            if guide.kind == "structural_tag"
            else _PartsOfGrammar(inner, texts, source, submit, written.text, known.schemas)
        )
        calls = native.Calls(
            before=[bytes.fromhex(text) for text in texts.before],
            names=[
                (name.encode() + behind, tool)
                for tool, name in enumerate(texts.names)
                for behind in firsts
            ],
            gate=bytes.fromhex(texts.gate),
            lead=lead[len(first) :] if lead else None,
            arguments=getattr(native.CallArguments, texts.ends),
            held=None if held_texts is None else native.HeldTexts(**held_texts),
            has_part=known.has_part,
            vocabulary=self._vocabulary.native,
            reaching=texts.firsts or self._reaching(lead, texts.after_bytes),
            part=parts.matcher,
        )
        return CallGrammar(inner, calls, inner.num_bytes + len(source))


@dataclass(frozen=True)
class _Parts(ABC):
    """Makes matchers for the parts of a message; see CallGrammars.grammar."""

    inner: CompiledGrammar
    texts: CallTexts
    source: str
    submit: Callable[[Guide], GrammarFuture]

    def matcher(self, tool: int, before: bytes) -> native.Matcher:
        """A matcher for the part of a tool, with the text `before` in front of its arguments; for
        tool -1, a matcher for the whole message.

        Raises EngineError, which names the tool.
        """
        found = (self.inner if tool < 0 else self._part(tool, before)).matcher()
        assert isinstance(found, native.Matcher)
        return found

    def _part(self, tool: int, before: bytes) -> CompiledGrammar:
        try:
            return self.submit(self._guide(tool, before)).result()
        except SpecguideError as error:
            raise EngineError(
                f"the arguments of the tool {self.texts.names[tool]!r} cannot be enforced: {error}"
            ) from error

    @abstractmethod
    def _guide(self, tool: int, before: bytes) -> Guide: ...


@dataclass(frozen=True)
class _PartsOfTags(_Parts):
    """The parts of a structural tag."""

    has_part: Sequence[bool]

    def _guide(self, tool: int, before: bytes) -> Guide:
        tag = rest_of(self._tag, tool, before.decode(), self._left)
        return Guide(structural_tag=tag, key_order="schema")

    @cached_property
    def _tag(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.source)
        return found

    @cached_property
    def _left(self) -> dict[str, Any]:
        return left_out(self._tag, self.has_part, is_reached=self.texts.is_reached)


@dataclass(frozen=True)
class _PartsOfGrammar(_Parts):
    """The parts of a grammar."""

    lark: str
    schemas: Sequence[tuple[int, int]]

    def _guide(self, tool: int, before: bytes) -> Guide:
        arguments = f"arguments: {lark_terms(before)} {self._arguments(tool)}"
        grammar = f"start: arguments {BEHIND_RULE}\n{arguments}{self._shared}"
        return Guide(grammar=grammar, key_order="schema", is_part=True)

    def _arguments(self, tool: int) -> str:
        """The term of a tool's arguments, and the rules that only this tool needs."""
        if self.texts.arguments is None:
            begin, end = self.schemas[tool]
            return f"%json {self.source[begin:end]}"
        begin, end, first, last = self.texts.arguments[tool]
        return f"{self.source[begin:end]}{self.source[first:last]}"

    @cached_property
    def _shared(self) -> str:
        """The rules that all parts share."""
        return self.lark[self.lark.index(CALL_RULE) :]
