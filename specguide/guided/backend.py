"""Owns the interface of a grammar backend, which turns a Guide into a compiled grammar, and the
forms that a guide has on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.known.call_texts import DeferredCalls
from specguide.guided.known.items import KnownItems
from specguide.guided.known.keys import KnownKeys
from specguide.guided.limits import encoded
from specguide.guided.matcher import Matcher
from specguide.guided.notations.grammar_form import grammar_form
from specguide.guided.schema.json_values import Json


@dataclass(frozen=True)
class BackendStatus:
    """The state of one grammar library on this machine.

    version: version of the installed package; None: it is not installed
    native:  its matchers run without Python
    reason:  why `native` is False; else None
    """

    name: str
    version: str | None
    native: bool
    reason: str | None


class CompiledGrammar(Protocol):
    """A grammar compiled against one vocabulary; immutable, shared by requests and threads."""

    @property
    def backend(self) -> str:
        """Name of the backend that compiled it."""
        ...

    @property
    def num_bytes(self) -> int:
        """Estimate of its memory in bytes right after the compile, for a cache's budget."""
        ...

    @property
    def used_bytes(self) -> int:
        """Estimate of the further memory, in bytes, that it has taken while it was used."""
        ...

    def matcher(self) -> Matcher:
        """A new matcher at the start of the grammar; a native one where the backend is native."""
        ...


@dataclass(frozen=True, eq=False)
class GrammarWrapper:
    """A compiled grammar around another one, `inner`."""

    inner: CompiledGrammar

    @property
    def backend(self) -> str:
        """Name of the backend that compiled it."""
        return self.inner.backend

    @property
    def used_bytes(self) -> int:
        """See CompiledGrammar; the wrapper adds nothing."""
        return self.inner.used_bytes


class Backend(Protocol):
    """One grammar library bound to one vocabulary. Its methods may be called from any thread."""

    native: bool
    """Whether its matchers are native."""

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        """Write a guide as text for the library. Raises the errors of `compile`."""
        ...

    def outline(self, written: Written, rewritten: Rewritten) -> Outline | None:
        """A grammar that tells how the guide's texts may end; None where none is known. May take
        longer than `write` and `compile` together."""
        ...

    def compile(self, guide: Guide | Written, limits: GuideConfig) -> CompiledGrammar:
        """Compile a guide as it was given, or as `write` has written it; this may take seconds.

        Raises InvalidGuide when the guide is malformed, UnsupportedGuide when the library refuses a
        feature that it uses, and GuideLimitExceeded when it runs into a limit of the library. Each
        quotes the library's message.
        """
        ...


@dataclass(frozen=True)
class Rewritten:
    """A guide in the form that is given to a backend.

    kind:  the guide's kind
    value: the guide's content, with JSON parsed; a JSON Schema, alone or in a tag, is a core schema
    keys:  for the guard of objects whose keys come in any order; None: no such guard
    calls: which parts of a message with tool calls are left out; None: none
    items: for the guard of arrays of distinct items, in a guide that is not JSON as a whole; None:
           no such guard
    """

    kind: str
    value: Json
    keys: KnownKeys | None = None
    calls: DeferredCalls | None = None
    items: KnownItems | None = None


class Outline(NamedTuple):
    """A grammar of a guide's texts in a language that `native.Endings` reads: "ebnf" or "lark".

    is_exact: it has exactly the guide's texts; False: it may have more
    """

    form: str
    text: str
    is_exact: bool = False


@dataclass(frozen=True)
class Written:
    """A guide as text that a library compiles.

    kind:     the guide's kind, as errors name it; for a grammar with the form that it was read as
    form:     the language of the text, one of those that the backend writes
    distinct: the fields of KnownItems, for the guard of arrays of distinct items, which the text
              does not enforce; None: no such guard
    outline:  tells how texts may end; None where that is not known, or was not asked for
    keys:     the fields of KnownKeys, for the guard of objects whose keys come in any order; None:
              no such guard
    calls:    the fields of DeferredCalls, where parts of the guide are left out
    """

    kind: str
    form: str
    text: str
    distinct: dict[str, Any] | None = None
    outline: Outline | None = None
    keys: dict[str, Any] | None = None
    calls: dict[str, Any] | None = None


def as_given(guide: Guide) -> Rewritten:
    """A guide as it was given. Raises InvalidGuide when its text cannot be passed to a library."""
    source = checked_source(guide)
    return Rewritten(guide.kind, source if guide.kind in _TEXTS else json.loads(source))


def read_as(rewritten: Rewritten) -> str:
    """The guide's kind as errors name it; for a grammar with the form that it was read as."""
    if rewritten.kind != "grammar":
        return rewritten.kind
    return f"grammar, read as {grammar_form(rewritten.value)},"


def checked_source(guide: Guide) -> str:
    """The canonical text of a guide. Raises InvalidGuide when it cannot be passed to a library."""
    return checked_text(guide.source(), guide.kind)


def checked_text(text: str, kind: str) -> str:
    """The given text of a guide. Raises InvalidGuide when it cannot be passed to a library."""
    if "\0" in text:
        raise InvalidGuide(f"{kind} holds the character U+0000; write it as an escape", param=kind)
    encoded(text, kind)
    return text


_TEXTS = ("regex", "grammar")
