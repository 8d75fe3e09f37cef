"""Owns the binding to xgrammar: it compiles guides, and its matchers run natively or through its
Python interface.

JSON schemas are compiled with `strict_mode=False`, so properties and items that a schema does not
name are allowed where JSON Schema allows them. Named properties come in the schema's order, others
after them. Compiling releases the GIL.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import xgrammar as xgr

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.adapters.python_matcher import LibraryMatcher
from specguide.guided.adapters.self_test import SELF_TEST_VOCABULARY, check_native_walk
from specguide.guided.backend import (
    Outline,
    Rewritten,
    Written,
    as_given,
    checked_text,
    read_as,
)
from specguide.guided.backends.xgrammar.escapes import with_plain_controls
from specguide.guided.backends.xgrammar.outline import outline_of
from specguide.guided.backends.xgrammar.schema_ebnf import schema_ebnf
from specguide.guided.backends.xgrammar.structural_tag import for_xgrammar, holds_grammar
from specguide.guided.matcher import Matcher, Row
from specguide.guided.notations.ebnf_cycles import check_cycles
from specguide.guided.notations.grammar_form import grammar_form
from specguide.guided.schema.core.nodes import ANY_OBJECT
from specguide.guided.schema.json_values import Json
from specguide.host import machine
from specguide.tokenizer.vocabulary import Vocabulary

NAME = "xgrammar"


class XGrammarMatcher(LibraryMatcher):
    """A matcher over xgrammar's Python interface."""

    def __init__(self, vocabulary: Vocabulary, compiled: xgr.CompiledGrammar) -> None:
        super().__init__(vocabulary)
        self._matcher = xgr.GrammarMatcher(compiled)

    def _take(self, token: int) -> bool:
        return self._matcher.accept_token(token)

    def _write_row(self, row: Row) -> None:
        self._matcher.fill_next_token_bitmask(row)
        used = len(self._vocabulary) % 32
        if used:  # xgrammar sets padding bits where everything is allowed
            row[-1:].view("uint32")[0] &= (1 << used) - 1

    def _undo(self, n: int) -> None:
        self._matcher.rollback(n)

    def _may_end(self) -> bool:
        return self._matcher.is_completed()


@dataclass(frozen=True)
class XGrammarCompiled:
    """A grammar that xgrammar compiled; see `specguide.guided.backend.CompiledGrammar`."""

    vocabulary: Vocabulary
    compiled: xgr.CompiledGrammar
    native_grammar: native.NativeGrammar | None
    num_bytes: int
    used_bytes: int = 0
    backend: str = NAME

    def matcher(self) -> Matcher:
        if self.native_grammar is not None:
            return self.native_grammar.matcher()
        return XGrammarMatcher(self.vocabulary, self.compiled)


class XGrammarBackend:
    """xgrammar bound to a vocabulary; see `specguide.guided.backend.Backend`."""

    def __init__(self, vocabulary: Vocabulary, library: native.XGrammarLibrary | None) -> None:
        self.native = library is not None
        self._vocabulary = vocabulary
        self._library = library
        self._lock = threading.Lock()
        self._compilers: tuple[xgr.GrammarCompiler, xgr.GrammarCompiler] | None = None

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        kind = read_as(rewritten)
        try:
            form, text = _FORMS[rewritten.kind](rewritten.value, limits)
        except (RuntimeError, ValueError) as error:
            raise _refusal(error, kind) from error
        return Written(kind, form, text)

    def outline(self, written: Written, rewritten: Rewritten) -> Outline | None:
        return outline_of(written.form, written.text)

    def compile(self, guide: Guide | Written, limits: GuideConfig) -> XGrammarCompiled:
        written = self.write(as_given(guide), limits) if isinstance(guide, Guide) else guide
        cached, fresh = self._bind(limits)
        try:
            try:
                compiler = fresh if written.form in _ALONE else cached
                compiled = _COMPILES[written.form](compiler, written.text)
            except RuntimeError as error:
                # A few grammars fail because of what they share with others; alone they compile.
                if "Check failed" not in str(error):
                    raise
                compiled = _COMPILES[written.form](fresh, written.text)
        except (RuntimeError, ValueError) as error:
            raise _refusal(error, written.kind) from error
        native_grammar = None
        if self._library is not None:
            native_grammar = _native_grammar(self._library, self._vocabulary.native, compiled)
        return XGrammarCompiled(
            self._vocabulary, compiled, native_grammar, compiled.memory_size_bytes
        )

    def _bind(self, limits: GuideConfig) -> tuple[xgr.GrammarCompiler, xgr.GrammarCompiler]:
        with self._lock:
            if self._compilers is None:
                self._compilers = _compilers(self._vocabulary, limits)
            return self._compilers


bind = XGrammarBackend


def _compilers(
    vocabulary: Vocabulary, limits: GuideConfig
) -> tuple[xgr.GrammarCompiler, xgr.GrammarCompiler]:
    """Two compilers: one that shares parts among grammars, in a quarter of the cache's budget, and
    one that does not."""
    token_bytes = list(vocabulary.token_bytes)
    for token in vocabulary.eos_token_ids:
        token_bytes[token] = b""
    info = xgr.TokenizerInfo(
        token_bytes,
        xgr.VocabType.RAW,
        vocab_size=len(vocabulary),
        stop_token_ids=list(vocabulary.eos_token_ids),
    )
    num_threads = max(1, min(8, machine.num_cores() // 2))
    return (
        xgr.GrammarCompiler(
            info, max_threads=num_threads, cache_limit_bytes=limits.cache_bytes // 4
        ),
        xgr.GrammarCompiler(info, max_threads=num_threads, cache_enabled=False),
    )


def _tag(tag: Json, limits: GuideConfig) -> tuple[str, str]:
    form = "structural_tag_with_grammar" if holds_grammar(tag) else "structural_tag"
    return form, json.dumps(for_xgrammar(tag, limits), ensure_ascii=False)


def _grammar(source: str) -> tuple[str, str]:
    text = checked_text(source, "grammar")
    if grammar_form(text) == "EBNF":
        return "own_ebnf", text
    with suppress(RuntimeError):  # an error is reported by the compile
        check_cycles(str(xgr.Grammar.from_lark(text)))
    return "lark", text


def _compile_lark(compiler: xgr.GrammarCompiler, text: str) -> xgr.CompiledGrammar:
    try:
        return compiler.compile_lark("start: @own", named_grammars={"own": text})
    except RuntimeError:
        return compiler.compile_lark(text)  # its error messages quote this text alone


def _compile_tag(compiler: xgr.GrammarCompiler, text: str) -> xgr.CompiledGrammar:
    return compiler.compile_structural_tag(json.loads(text))


_FORMS: dict[str, Callable[[Json, GuideConfig], tuple[str, str]]] = {
    "json_schema": lambda schema, limits: ("ebnf", schema_ebnf(schema, limits)),
    "json_object": lambda _, limits: ("ebnf", schema_ebnf(ANY_OBJECT, limits)),
    "regex": lambda pattern, _: ("regex", with_plain_controls(checked_text(pattern, "regex"))),
    "choice": lambda options, _: ("ebnf", "root ::= " + " | ".join(map(_literal, options))),
    "structural_tag": _tag,
    "grammar": lambda source, _: _grammar(source),
}
"""By kind of guide: functions that give the form in which it is written, and its text."""

_COMPILES: dict[str, Callable[[xgr.GrammarCompiler, str], xgr.CompiledGrammar]] = {
    "ebnf": lambda compiler, text: compiler.compile_grammar(text),
    "own_ebnf": lambda compiler, text: compiler.compile_grammar(
        xgr.Grammar.concat(xgr.Grammar.from_ebnf(text))
    ),
    "lark": _compile_lark,
    "regex": lambda compiler, text: compiler.compile_regex(text),
    "structural_tag": _compile_tag,
    "structural_tag_with_grammar": _compile_tag,
}

_ALONE = ("own_ebnf", "lark", "structural_tag_with_grammar")
"""Forms whose rules may call each other in any way. The library takes some of such rules for those
of another grammar, and gives them its rows. So they are compiled without sharing, with a root that
no rule calls: within a root that is called, rows would lack tokens that reach behind its end."""


def _literal(text: str) -> str:
    """A text as a string literal of xgrammar's EBNF."""

    def escape(char: str) -> str:
        if char in '"\\':
            return "\\" + char
        return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else char

    return '"' + "".join(map(escape, text)) + '"'


_MALFORMED = (
    "must be",
    "must have",
    "cannot accept",
    "Cannot find",
    "Unsupported type",
    "Invalid",
    "error at line",
    "error at position",
)
_NOT_SUPPORTED = ("not supported", "not recognized", "unsupported ", "Unsupported ")


def _refusal(error: Exception, kind: str) -> InvalidGuide:
    words = _without_place(str(error)).strip() or type(error).__name__
    if any(sign in words for sign in _MALFORMED) and not any(
        sign in words.replace("Unsupported type", "") for sign in _NOT_SUPPORTED
    ):
        return InvalidGuide(f"{kind} is malformed: {words}", param=kind.partition(",")[0])
    return UnsupportedGuide(f"xgrammar cannot compile {kind}: {words}")


def _without_place(words: str) -> str:
    """An error's message without the time, the library's line number and the check at its
    beginning."""
    place, found, rest = words.partition(": ")
    if not found or not place.startswith("["):
        return words
    if rest.startswith("Check failed: ("):
        return rest.partition(" is false: ")[2] or rest
    return rest


@functools.cache
def native_library() -> tuple[native.XGrammarLibrary | None, str | None]:
    """xgrammar's native interface and None; or None and the reason why it does not work."""
    try:
        from tvm_ffi import libinfo

        library = native.XGrammarLibrary(str(libinfo.find_libtvm_ffi()))
        compiler = _compilers(SELF_TEST_VOCABULARY, GuideConfig())[1]
        compiled = compiler.compile_regex("ab?")
        check_native_walk(_native_grammar(library, SELF_TEST_VOCABULARY.native, compiled))
    except Exception as error:  # if a changed library fails, the Python adapter is used
        return None, str(error) or type(error).__name__
    return library, None


def _native_grammar(
    library: native.XGrammarLibrary,
    vocabulary: native.NativeVocabulary,
    compiled: xgr.CompiledGrammar,
) -> native.NativeGrammar:
    pattern = xgr.GrammarMatcher(compiled)  # must live until the native side holds its handle
    return library.grammar(vocabulary, pattern._handle.__chandle__())
