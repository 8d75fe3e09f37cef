"""Owns the interface of a grammar backend: a Guide in, a compiled grammar out, matchers from
that."""

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
    """What has been found out about one grammar library on this machine.

    version: that of the installed package; None: it is not installed
    native:  its matchers are driven without Python
    reason:  why not, where `native` is False
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
        """Estimate of the memory it holds once it is compiled, for a cache's budget."""
        ...

    @property
    def used_bytes(self) -> int:
        """Estimate of the memory that it holds beside that, since it was used."""
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
        """Memory that the other one holds since it was used."""
        return self.inner.used_bytes


class Backend(Protocol):
    """One grammar library bound to one vocabulary. Its methods may be called from any thread."""

    name: str
    """The name of its BackendSpec."""
    native: bool
    """Whether its matchers are native."""
    reason: str | None
    """Why they are not native; None where they are."""

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        """A guide as text for the library. Raises what `compile` does."""
        ...

    def outline(self, written: Written, rewritten: Rewritten) -> Outline | None:
        """How the texts of a guide may end, as far as that is known; may take longer than to write
        and compile it."""
        ...

    def compile(self, guide: Guide | Written, limits: GuideConfig) -> CompiledGrammar:
        """Compile a guide, as it was given or as it was written; this may take seconds.

        Raises InvalidGuide when the guide is malformed, UnsupportedGuide when the library refuses a
        feature that it uses, and GuideLimitExceeded when it runs into a limit of the library, each
        with the library's words.
        """
        ...


@dataclass(frozen=True)
class Rewritten:
    """A guide in the form that a backend is given.

    kind:  the guide's kind
    value: what the guide holds, JSON read; a JSON Schema, the guide itself or a part of it, as a
           core schema
    keys:  what a guard must know of objects whose keys come in any order; None: there is no such
           guard
    calls: the parts of a message with tool calls that are left out of it; None: there are none
    items: for a guide that is no JSON as a whole, what a guard must know of arrays of distinct
           items; None: there are none
    """

    kind: str
    value: Json
    keys: KnownKeys | None = None
    calls: DeferredCalls | None = None
    items: KnownItems | None = None


class Outline(NamedTuple):
    """A grammar of the same texts in a language that `native.Endings` reads: "ebnf" or "lark".

    is_exact: of these texts and no others; False: it may have more
    """

    form: str
    text: str
    is_exact: bool = False


@dataclass(frozen=True)
class Written:
    """A guide as text that a library compiles.

    kind:     the guide's kind, as errors name it; a grammar's has the form that it was read as
    form:     the language of the text, one of those that the backend writes
    distinct: the fields of KnownItems, for a guard of arrays of distinct items, of which the text
              does not speak; None: there are none
    outline:  tells how texts may end; None where that is not known, or was not asked for
    keys:     the fields of KnownKeys, for a guard of objects whose keys come in any order; None:
              there is no such guard
    calls:    the fields of DeferredCalls, where a part of the guide is left out
    """

    kind: str
    form: str
    text: str
    distinct: dict[str, Any] | None = None
    outline: Outline | None = None
    keys: dict[str, Any] | None = None
    calls: dict[str, Any] | None = None


def as_given(guide: Guide) -> Rewritten:
    """A guide as it was given. Raises InvalidGuide when it is no text that a library can be
    handed."""
    source = checked_source(guide)
    return Rewritten(guide.kind, source if guide.kind in _TEXTS else json.loads(source))


def read_as(rewritten: Rewritten) -> str:
    """The words by which errors name a guide's kind."""
    if rewritten.kind != "grammar":
        return rewritten.kind
    return f"grammar, read as {grammar_form(rewritten.value)},"


def checked_source(guide: Guide) -> str:
    """The canonical text of a guide. Raises InvalidGuide when it is no text that a library can be
    handed."""
    return checked_text(guide.source(), guide.kind)


def checked_text(text: str, kind: str) -> str:
    """The given text of a guide. Raises InvalidGuide when it is none that a library can be
    handed."""
    if "\0" in text:
        raise InvalidGuide(f"{kind} holds the character U+0000; write it as an escape", param=kind)
    encoded(text, kind)
    return text


_TEXTS = ("regex", "grammar")
