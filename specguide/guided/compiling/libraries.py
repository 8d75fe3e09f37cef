"""Owns the grammar libraries over one vocabulary, and the search for the first one that enforces a
guide."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from specguide.config import GuideConfig
from specguide.errors import (
    CompilerBusy,
    EngineError,
    GuideLimitExceeded,
    InvalidGuide,
    UnsupportedGuide,
)
from specguide.guide import Guide
from specguide.guide.schema_documents import schema_documents
from specguide.guided.backend import Outline, Rewritten, Written
from specguide.guided.backends import Backend, CompiledGrammar, create_backend
from specguide.guided.budget import Budget
from specguide.guided.compiling.verdict import check_start, why_none
from specguide.guided.grammar_future import GrammarFuture
from specguide.guided.known.call_texts import CallTexts
from specguide.guided.known.items import KnownItems
from specguide.guided.limits import check_limits
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.document.document import Reading
from specguide.guided.schema.places.distinct import distinct_places
from specguide.guided.schema.pruning.prune import NoInstance
from specguide.guided.select import candidates, rewrites
from specguide.guided.token_names import with_special_ids
from specguide.guided.wrappers.call_grammar import CallGrammars
from specguide.guided.wrappers.distinct import DistinctItems
from specguide.guided.wrappers.endings import MOST_LATE, EndingGrammar, GrammarEndings, spare_of
from specguide.guided.wrappers.key_order import in_any_order
from specguide.guided.wrappers.keys import KeyGuard
from specguide.tokenizer.vocabulary import Vocabulary

_log = logging.getLogger(__name__)

T = TypeVar("T")
Failure = InvalidGuide | CompilerBusy | EngineError
"""The errors of a compile that gives no grammar."""
Outcome = CompiledGrammar | Failure
"""The result of a compile."""


@dataclass(frozen=True)
class Enforced:
    """A guide that a backend enforces: its text for the backend, and the backend's compiled
    grammar."""

    written: Written
    backend: str
    grammar: CompiledGrammar


class Libraries:
    """Binds each library at its first use. Its methods may be called from any thread.

    submit: compiles parts that were left out of a guide
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        config: GuideConfig,
        submit: Callable[[Guide], GrammarFuture] | None = None,
    ) -> None:
        self.config = config
        self._submit = submit
        self.vocabulary = vocabulary
        self._backends: dict[str, Backend] = {}
        self._distinct_items = DistinctItems(vocabulary)
        self._endings = GrammarEndings(vocabulary)
        self._key_guard = KeyGuard(vocabulary)
        self._calls = CallGrammars(vocabulary)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def load(self, name: str) -> None:
        """Import a library, which takes seconds the first time. An error is reported when the
        library is used."""
        with suppress(Exception):
            self._backend(name)

    def first_enforcing(
        self, guide: Guide, requested: str, before: Callable[[str], None]
    ) -> Enforced:
        """The guide, compiled by the first backend that enforces it.

        requested: "auto", or the backend that is asked for
        before:    called with a backend's name before it is tried; an error that it raises ends the
                   search

        Raises InvalidGuide, UnsupportedGuide, GuideLimitExceeded.
        """
        if not guide.is_part:
            check_limits(guide, self.config)
        with Budget(self.config.max_schema_steps).counting():
            named = with_special_ids(guide, self.vocabulary.special_ids)
            return self._search(named, requested, before)

    def _search(self, guide: Guide, requested: str, before: Callable[[str], None]) -> Enforced:
        if guide.as_tag is not None:
            tag = Guide(structural_tag=guide.as_tag, key_order=guide.key_order)
            with suppress(InvalidGuide):
                return self._search(tag, requested, before)
        order = guide.key_order or self.config.key_order
        reasons: dict[str, InvalidGuide] = {}
        found = self._in_order(order, guide, requested, before, reasons)
        if found is None and order != "any" and _may_be_freed(guide, reasons):
            found = self._in_order("any", guide, requested, before, {})
        if found is None:
            raise why_none(guide, reasons)
        return found

    def _in_order(
        self,
        order: str,
        guide: Guide,
        requested: str,
        before: Callable[[str], None],
        reasons: dict[str, InvalidGuide],
    ) -> Enforced | None:
        """The guide with an order of keys. Adds to `reasons`, by backend, the error that kept it
        from enforcing the guide."""
        for name in candidates(guide, requested):
            before(name)
            try:
                for rewritten in self._rewrites(guide, name, order):
                    try:
                        return self._enforced(rewritten, name, order, guide)
                    except InvalidGuide as error:
                        if guide.kind == "structural_tag" and rewritten.calls is not None:
                            continue  # next the whole tag is tried, with an error of its own
                        if order == "any" and getattr(reasons.get(name), "keyword", "") is None:
                            del reasons[name]  # a later error may name the keyword
                        reasons.setdefault(name, error)
            except NoInstance as error:
                reasons[name] = error
            except UnsupportedGuide as error:
                reasons.setdefault(name, error)
        return None

    def _enforced(self, rewritten: Rewritten, backend: str, order: str, guide: Guide) -> Enforced:
        """The guide, compiled by the backend. Raises InvalidGuide, and UnsupportedGuide if the
        backend refuses it."""
        written = self._written(rewritten, backend, order)
        grammar = self.compile(written, backend)
        if written.keys is None and not guide.is_part:  # a part ends as the whole does
            outline = self._outline(written, rewritten, backend, guide)
            written = replace(written, outline=outline)
        return Enforced(written, backend, grammar)

    def _outline(
        self, written: Written, rewritten: Rewritten, backend: str, guide: Guide
    ) -> Outline | None:
        """The outline of the whole guide, including parts that are compiled later."""
        if written.calls is None:
            return self._backend(backend).outline(written, rewritten)
        if len(guide.source()) > MOST_LATE:  # the first row would wait too long for its ends
            return None
        try:
            with Budget(self.config.max_schema_steps).counting():
                (whole,) = rewrites(replace(guide, calls=None), backend, "schema", self._reading())
                written = self._written(whole, backend, "schema")
        except InvalidGuide:
            if guide.kind == "structural_tag":  # a whole tag that cannot be enforced is refused
                raise
            return None
        outline = self._backend(backend).outline(written, whole)
        is_small = outline is not None and (
            guide.kind == "structural_tag" or len(outline.text) <= MOST_LATE
        )
        # not exact, since each part has rows of its own
        return outline._replace(is_exact=False) if outline is not None and is_small else None

    def _rewrites(self, guide: Guide, backend: str, order: str) -> Iterator[Rewritten]:
        def with_tokens(calls: CallTexts) -> CallTexts | None:
            is_large = guide.kind == "structural_tag" and len(guide.source()) > MOST_LATE
            may_wait = self._backend(backend).native and not is_large
            return self._calls.with_tokens(calls) if may_wait else None

        return rewrites(guide, backend, order, self._reading(), with_tokens=with_tokens)

    def _reading(self) -> Reading:
        documents = schema_documents(self.config.schema_documents)
        return Reading(documents, self.config.assert_formats)

    def _written(self, rewritten: Rewritten, backend: str, order: str) -> Written:
        schema = rewritten.value
        if order == "any" or (isinstance(schema, CoreSchema) and schema.tracked is not None):
            rewritten = in_any_order(rewritten)
            schema = rewritten.value
        # before the writing, which may take long: this may refuse the guide
        places = distinct_places(schema) if isinstance(schema, CoreSchema) else []
        written = self._backend(backend).write(rewritten, self.config)
        items = KnownItems(places) if places else rewritten.items
        keys, calls = rewritten.keys, rewritten.calls
        return replace(
            written,
            distinct=None if items is None else vars(items),
            keys=None if keys is None else vars(keys),
            calls=None if calls is None else vars(calls),
        )

    def compile(self, guide: Guide | Written, backend: str) -> CompiledGrammar:
        """Compile a guide as it is written for the backend. Raises InvalidGuide, and
        UnsupportedGuide if its grammar cannot start."""
        grammar = self._backend(backend).compile(guide, self.config)
        if isinstance(guide, Written) and guide.keys is not None:
            grammar = self._key_guard.guard(grammar, guide.keys)
        if isinstance(guide, Written) and guide.distinct is not None:
            in_any_order = guide.keys is not None
            grammar = self._distinct_items.guard(grammar, guide.distinct, in_any_order=in_any_order)
        check_start(grammar, self.vocabulary)
        return grammar

    def served(self, grammar: CompiledGrammar, written: Written, guide: Guide) -> CompiledGrammar:
        """The grammar that requests get: the compiled one, with its ends where these are known. It
        compiles the parts that were left out when a call needs them."""
        if written.calls is not None:
            assert self._submit is not None
            calls = self._calls.grammar(grammar, written, guide, self._submit)
            # no search for ends with the matcher: it would compile parts, and wait for them
            return self._endings.told(calls, written.outline, 0, may_go_on=_is_text_around(guide))
        # the text does not tell which of the required keys are missing
        if written.keys is not None:
            return grammar
        num_spare = spare_of(written, reads_one_way=guide.reads_one_way)
        may_go_on = _is_text_around(guide)
        return self._endings.told(grammar, written.outline, num_spare, may_go_on=may_go_on)

    def _backend(self, name: str) -> Backend:
        with self._locks[name]:
            if name not in self._backends:
                try:
                    self._backends[name] = create_backend(name, self.vocabulary)
                    self._distinct_items.load()
                    self._key_guard.load()
                except EngineError as error:  # the library is not installed
                    raise UnsupportedGuide(str(error)) from None
            return self._backends[name]


def _is_text_around(guide: Guide) -> bool:
    """Whether outputs may contain free text around tool calls or tags."""
    return guide.reads_one_way or guide.structural_tag is not None


def _may_be_freed(guide: Guide, reasons: dict[str, InvalidGuide]) -> bool:
    """Whether keys in any order, which a guard counts, could enforce what a grammar alone does
    not."""
    if guide.kind != "json_schema":
        return False
    return all(isinstance(reason, UnsupportedGuide) for reason in reasons.values())


def outcome(guide: Guide, config: GuideConfig, work: Callable[[], T]) -> T | Failure:
    """The result of the work on a guide, or its error."""
    try:
        return work()
    except (InvalidGuide, CompilerBusy, EngineError) as error:
        return error
    except RecursionError:
        return GuideLimitExceeded(
            f"the parts of the {guide.kind} lead too deep into each other, nested or by "
            "reference; make it flatter",
            limit="max_depth",
        )
    except MemoryError:
        return too_large(guide, config)
    except BaseException as error:  # a bug in a library; a panic in Rust is a BaseException
        return internal_error(guide, error)


def finish(found: Outcome) -> None:
    """Find what no caller has waited for yet. Errors are not reported."""
    if isinstance(found, EndingGrammar):
        found.finish()


def is_told(found: Outcome, futures: Iterable[GrammarFuture]) -> bool:
    """Whether everything is known that callers need when their futures are settled."""
    if not isinstance(found, EndingGrammar):
        return True
    rooms = (future.room for future in futures)
    return all(room is None or found.has_room(room) for room in rooms)


def internal_error(guide: Guide, cause: BaseException) -> EngineError:
    """The error of a compile that failed unexpectedly; the cause is logged. It ends this request
    alone."""
    _log.error("compiling a guide (%s) failed", guide.kind, exc_info=cause)
    return EngineError(f"compiling the {guide.kind} failed: {type(cause).__name__}: {cause}")


def too_slow(config: GuideConfig) -> GuideLimitExceeded:
    """The error of a compile that exceeded its time."""
    return GuideLimitExceeded(
        "the grammar took longer to compile than compile_timeout_s "
        f"({config.compile_timeout_s:g} s); make it smaller, or raise the limit",
        limit="compile_timeout_s",
    )


def too_large(guide: Guide, config: GuideConfig) -> GuideLimitExceeded:
    """The error of a compile that exceeded its memory."""
    return GuideLimitExceeded(
        f"compiling the {guide.kind} takes more memory than max_compile_bytes "
        f"({config.max_compile_bytes}); make it smaller, or raise the limit",
        limit="max_compile_bytes",
    )
