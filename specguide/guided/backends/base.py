"""Owns the interface of a grammar backend: a Guide in, a compiled grammar out, matchers from
that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.matcher import Matcher


@dataclass(frozen=True)
class BackendStatus:
    """What was found of one grammar library on this machine.

    version: of the installed package; None: it is not installed
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
        """Estimate of the memory it holds, for a cache's budget."""
        ...

    def matcher(self) -> Matcher:
        """A new matcher at the start of the grammar; a native one where the backend is native."""
        ...


class Backend(Protocol):
    """One grammar library bound to one vocabulary. Its methods may be called from any thread."""

    name: str
    """ "llguidance" or "xgrammar"."""
    native: bool
    """Whether its matchers are native."""
    reason: str | None
    """Why they are not, where they are not."""

    def compile(self, guide: Guide, limits: GuideConfig) -> CompiledGrammar:
        """Compiles a guide; may take seconds.

        Raises InvalidGuide when the guide is malformed, UnsupportedGuide when the library refuses a
        feature that it uses, and GuideLimitExceeded when it runs into a limit of the library, each
        with the library's words.
        """
        ...


def checked_source(guide: Guide) -> str:
    """The canonical text of a guide. Raises InvalidGuide when it is no text that a library can be
    handed."""
    source = guide.source()
    if "\0" in source:
        raise InvalidGuide(
            f"{guide.kind} holds the character U+0000; write it as an escape", param=guide.kind
        )
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise InvalidGuide(
            f"{guide.kind} is not valid Unicode: {error}", param=guide.kind
        ) from error
    return source


def schema_or_tag(guide: Guide) -> Any:
    """The JSON Schema or structural tag of a guide; subschemas of the core stay such. Raises as
    `checked_source`."""
    source, value = checked_source(guide), getattr(guide, guide.kind)
    return value if isinstance(value, (dict, bool)) else json.loads(source)
