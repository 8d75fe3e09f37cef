"""Owns the description of a grammar backend: all that is known of it before its library is
loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specguide.errors import UnsupportedGuide
from specguide.guided.backend import Backend
from specguide.guided.known.call_texts import CallTexts, DeferredCalls
from specguide.guided.known.items import KnownItems
from specguide.guided.known.keys import KnownKeys
from specguide.guided.notations.grammar_form import GrammarForm
from specguide.guided.schema.core.capabilities import Capabilities
from specguide.tokenizer.vocabulary import Vocabulary


class Adapter(Protocol):
    """A loaded grammar library: a module, or an object."""

    def native_library(self) -> tuple[Any, str | None]:
        """The library's native interface and None; or None and the reason why its matchers run in
        Python."""
        ...

    def bind(self, vocabulary: Vocabulary, library: Any) -> Backend:
        """The backend over a vocabulary. library: the native interface; None: Python drives the
        library"""
        ...


@dataclass(frozen=True)
class Library:
    """Where a backend's library comes from.

    load:          imports it; raises ImportError where it is not installed
    package:       its name for `pip install`; None: it needs no package
    imports_torch: importing the package imports torch, although compiling needs only names from it
    """

    load: Callable[[], Adapter]
    package: str | None = None
    imports_torch: bool = False


@dataclass(frozen=True)
class GrammarSupport:
    """How a backend takes context-free grammars.

    forms:     the forms of which it supports everything; "auto" tries it for no others
    rewrite:   the grammar as the library must be given it; raises InvalidGuide, and
               UnsupportedGuide where the library would ignore a part
    free_keys: rewrites a grammar with JSON Schemas so that objects have their keys in any order;
               with it come the facts for the guards of keys and of distinct items. None: it keeps
               the schemas' order
    distinct:  rewrites a grammar in the schemas' order, where schemas say behind which texts their
               JSON begins; with it come the facts for the guard of distinct items. None: it has no
               such guard
    defer:     rewrites a message with tool calls without the arguments that can wait; with it comes
               what was left out. None: it leaves nothing out
    part:      rewrites a part that was left out, with what follows it, from a grammar that is
               checked already; None: as any other grammar
    may_wait:  whether a schema in a structural tag can be left out too
    """

    forms: frozenset[GrammarForm]
    rewrite: Callable[[str, GrammarForm], str]
    free_keys: Callable[[str], tuple[str, KnownKeys, KnownItems | None]] | None = None
    distinct: Callable[[str], tuple[str, KnownItems | None]] | None = None
    defer: Callable[[str, CallTexts], tuple[str, DeferredCalls]] | None = None
    part: Callable[[str], str] | None = None
    may_wait: Callable[[Mapping[str, Any]], bool] = lambda _: False


@dataclass(frozen=True)
class BackendSpec:
    """One grammar backend.

    name:         its name in guides, configuration and reports
    library:      the library that compiles for it, loaded when it is first needed
    kinds:        the kinds of guides that it compiles, by the names of Guide's fields
    capabilities: what it enforces of JSON Schemas; None: it compiles neither schemas nor structural
                  tags
    grammars:     how it takes context-free grammars; None: it compiles none
    joins:        whether it takes several regular expressions that must all match the same text
    rank:         "auto" tries backends of a lower rank first
    """

    name: str
    library: Library
    kinds: frozenset[str]
    capabilities: Capabilities | None = None
    grammars: GrammarSupport | None = None
    joins: bool = False
    rank: int = 100

    def takes(self, kind: str, form: GrammarForm | None) -> bool:
        """Whether "auto" tries it for guides of a kind. form: the form of a grammar; None for other
        kinds"""
        return kind in self.kinds and (
            form is None or (self.grammars is not None and form in self.grammars.forms)
        )

    def enforced(self) -> Capabilities:
        """Its `capabilities`. Raises UnsupportedGuide where it compiles no schemas."""
        if self.capabilities is None:
            raise UnsupportedGuide(f"{self.name} compiles no JSON Schemas; choose another backend")
        return self.capabilities

    def rewritten(self, source: str, form: GrammarForm) -> str:
        """A grammar as the library must be given it. Raises UnsupportedGuide if the
        backend compiles none, and the errors of `GrammarSupport.rewrite`."""
        if self.grammars is None:
            raise UnsupportedGuide(f"{self.name} compiles no grammars; choose another backend")
        return self.grammars.rewrite(source, form)
