"""Native adapters against the Python ones, row for row, and what happens when a native interface
does not resolve."""

from __future__ import annotations

import gc
import gzip
import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import llguidance._lib as llguidance_lib
import numpy as np
import pytest
from byte_vocabulary import VOCABULARY, backend
from counting_language import allowed_in
from grammar_backends import WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm_ffi import libinfo

from specguide import native
from specguide.config import GuideConfig
from specguide.errors import EngineError
from specguide.guide import Guide
from specguide.guided import backends
from specguide.guided.backends import CompiledGrammar, backend_status, create_backend
from specguide.guided.backends.llguidance import adapter as llguidance_backend
from specguide.guided.backends.xgrammar import adapter as xgrammar_backend
from specguide.guided.matcher import Matcher
from specguide.tokenizer.vocabulary import Vocabulary

BOTH = pytest.mark.parametrize("name", WHOLE)

GUIDES = (
    Guide(
        json_schema={
            "type": "object",
            "required": ["name", "tags"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 8},
                "size": {"type": "number", "minimum": 0},
                "tags": {"type": "array", "items": {"enum": ["abc", "abd", "é"]}, "maxItems": 3},
                "next": {"$ref": "#/$defs/node"},
            },
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "pattern": "^[a-f0-9]{4}$"},
                        "next": {"$ref": "#/$defs/node"},
                    },
                }
            },
        }
    ),
    Guide(json_object=True),
    Guide(regex="(true|false|[a-z]{2,5}é+|12(,12)*)!?"),
    Guide(
        grammar='root ::= "{" pair ("," pair)* "}"\npair ::= "\\"" [a-z]+ "\\":" ("true" | "null" '
        "| root)"
    ),
    Guide(choice=("abc", "abcabc", "true", "é")),
)


def rows_of(matchers: list[Matcher], vocabulary: Vocabulary) -> list[np.ndarray]:
    rows = [np.full(vocabulary.num_words, fill, np.int32) for fill in range(-1, len(matchers) - 1)]
    for matcher, row in zip(matchers, rows, strict=True):
        matcher.fill(row)
    return rows


@BOTH
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.kind)
@settings(max_examples=25)
@given(choices=st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 9)), max_size=30))
def test_native_and_python_adapters_agree_bit_for_bit(
    name: str, guide: Guide, choices: list[tuple[int, int]]
) -> None:
    matchers = [backend(name, how).compile(guide, GuideConfig()).matcher() for how in (True, False)]
    path: list[int] = []
    for number, back in choices:
        native_row, python_row = rows_of(matchers, VOCABULARY)
        assert np.array_equal(native_row, python_row), path
        allowed = allowed_in(native_row)
        for tried in (number % len(VOCABULARY), *VOCABULARY.eos_token_ids):
            for matcher in matchers:
                assert matcher.accept(tried) == (tried in allowed), (path, tried)
                matcher.rollback(1 if tried in allowed else 0)
        path.append(allowed[number % len(allowed)])
        assert all(matcher.accept(path[-1]) for matcher in matchers)
        if back > 7 or matchers[0].is_terminated:
            num_back = min(back - 6 if back > 7 else 1, len(path))
            for matcher in matchers:
                matcher.rollback(num_back)
            del path[len(path) - num_back :]
    assert list(matchers[0].forced_tokens()) == list(matchers[1].forced_tokens())


JSON_TOKENS = Vocabulary(
    (
        *(bytes([byte]) for byte in range(256)),
        b'{"',
        b'": ["',
        b'": {"',
        b'": "',
        b'"], "',
        b'"}, "',
        b"abc",
        b"<end>",
    ),
    (263,),
)


@BOTH
@pytest.mark.parametrize("how", [True, False], ids=["native", "python"])
def test_a_row_after_a_rollback_is_that_of_the_path_alone(name: str, how: bool) -> None:
    guide = Guide(json_schema={"type": "object"})
    grammar = create_backend(name, JSON_TOKENS, native=how).compile(guide, GuideConfig())
    rng = random.Random(5)

    def fresh_row(path: list[int]) -> np.ndarray:
        fresh = grammar.matcher()
        assert all(fresh.accept(token) for token in path)
        return rows_of([fresh], JSON_TOKENS)[0]

    for _ in range(100):
        matcher, path = grammar.matcher(), list[int]()
        for _ in range(16):
            if rng.random() < 0.7:
                assert np.array_equal(rows_of([matcher], JSON_TOKENS)[0], fresh_row(path)), path
            if path and rng.random() < 0.4:
                back = rng.randint(1, min(3, len(path)))
                matcher.rollback(back)
                del path[-back:]
            allowed = [
                token
                for token in allowed_in(fresh_row(path))
                if token not in JSON_TOKENS.eos_token_ids
            ]
            if not allowed:
                break
            path.append(rng.choice([token for token in allowed if token > 255] or allowed))
            assert matcher.accept(path[-1])


def assert_forced(matcher: Matcher, vocabulary: Vocabulary) -> None:
    """Each forced token is one that every allowed token begins with or continues."""
    tokens = list(matcher.forced_tokens())
    for forced in tokens:
        row = np.zeros(vocabulary.num_words, np.int32)
        matcher.fill(row)
        text = vocabulary.token_bytes[forced]
        for other in allowed_in(row):
            other_text = vocabulary.token_bytes[other]
            assert other_text and (other_text.startswith(text) or text.startswith(other_text))
        assert matcher.accept(forced)
    matcher.rollback(len(tokens))


@BOTH
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.kind)
@settings(max_examples=15)
@given(choices=st.lists(st.integers(0, 2**31), max_size=15))
def test_forced_tokens_are_forced(name: str, guide: Guide, choices: list[int]) -> None:
    matcher = backend(name, True).compile(guide, GuideConfig()).matcher()
    row = np.zeros(VOCABULARY.num_words, np.int32)
    for number in choices:
        assert_forced(matcher, VOCABULARY)
        matcher.fill(row)
        allowed = allowed_in(row)
        assert matcher.accept(allowed[number % len(allowed)])
        if matcher.is_terminated:
            break


@BOTH
def test_a_property_name_is_forced(name: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "boolean"}},
        "required": ["name"],
        "additionalProperties": False,
    }
    matcher = (
        backend(name, True)
        .compile(Guide(json_schema=schema), GuideConfig(max_whitespace=0))
        .matcher()
    )
    text = b"".join(VOCABULARY.token_bytes[token] for token in matcher.forced_tokens())
    assert text == b'{"name":'


@BOTH
def test_a_row_of_the_wrong_width_is_refused(name: str) -> None:
    for how in (True, False):
        matcher = backend(name, how).compile(GUIDES[2], GuideConfig()).matcher()
        for shape in (VOCABULARY.num_words - 1, VOCABULARY.num_words + 1):
            with pytest.raises(ValueError, match="row"):
                matcher.fill(np.zeros(shape, np.int32))


@pytest.fixture(scope="module")
def llama3(data_dir: Path) -> Vocabulary:
    """A vocabulary of 128,256 tokens with two end tokens."""
    from tokenizers import Tokenizer

    from specguide.tokenizer.token_bytes import token_bytes

    packed = (data_dir / "tokenizers/llama3-tokenizer.json.gz").read_bytes()
    backing = Tokenizer.from_str(gzip.decompress(packed).decode())
    return Vocabulary(
        token_bytes(backing, 128_256, frozenset(range(128_000, 128_256))), (128_001, 128_009)
    )


@BOTH
def test_adapters_agree_over_a_large_vocabulary(name: str, llama3: Vocabulary) -> None:
    grammars = [
        create_backend(name, llama3, native=how).compile(GUIDES[0], GuideConfig())
        for how in (True, False)
    ]
    random = np.random.default_rng(7)
    for _ in range(3):
        matchers = [grammar.matcher() for grammar in grammars]
        for _ in range(15):
            native_row, python_row = rows_of(matchers, llama3)
            assert np.array_equal(native_row, python_row)
            token = int(random.choice(allowed_in(native_row)))
            assert all(matcher.accept(token) for matcher in matchers)
            if matchers[0].is_terminated:
                break


@BOTH
def test_the_native_interfaces_resolve_here(name: str) -> None:
    status = backend_status(name)
    assert status.native and status.reason is None and status.version
    made = create_backend(name, VOCABULARY, native=True)
    assert made.native and isinstance(
        made.compile(GUIDES[2], GuideConfig()).matcher(), native.Matcher
    )


MODULES = {"llguidance": llguidance_backend, "xgrammar": xgrammar_backend}


@BOTH
def test_the_python_adapter_takes_over_with_one_warning(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULES[name], "native_library", lambda: (None, "the moon is full"))
    backends._warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"{name} is driven through Python.*the moon is full"):
        made = create_backend(name, VOCABULARY)
    assert not made.native
    assert_python(made.compile(GUIDES[2], GuideConfig()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        create_backend(name, VOCABULARY)
    assert backend_status(name).reason == "the moon is full"
    with pytest.raises(EngineError, match="the moon is full"):
        create_backend(name, VOCABULARY, native=True)


@BOTH
def test_the_environment_can_ask_for_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGUIDE_PYTHON_MATCHERS", "1")
    backends._warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match="SPECGUIDE_PYTHON_MATCHERS"):
        made = create_backend(name, VOCABULARY)
    assert_python(made.compile(GUIDES[2], GuideConfig()))
    assert not backend_status(name).native


def assert_python(grammar: CompiledGrammar) -> None:
    assert not isinstance(grammar.matcher(), native.Matcher)


def test_a_backend_whose_library_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> Any:
        raise ImportError("No module named 'xgrammar'")

    spec = backends.backend_spec("xgrammar")
    lost = replace(spec, library=replace(spec.library, load=missing))
    monkeypatch.setitem(backends.BACKENDS, "xgrammar", lost)
    with pytest.raises(EngineError, match="pip install xgrammar"):
        create_backend("xgrammar", VOCABULARY)
    status = backend_status("xgrammar")
    assert (
        status.version is None
        and not status.native
        and "pip install xgrammar" in str(status.reason)
    )


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="'outlines' is unknown; known: llguidance, xgrammar"):
        create_backend("outlines", VOCABULARY)


def test_libraries_of_another_make_are_refused_with_a_reason() -> None:
    tvm_ffi = str(libinfo.find_libtvm_ffi())
    for make in (native.XGrammarLibrary, native.LLGuidanceLibrary):
        with pytest.raises(RuntimeError, match="cannot open the library"):
            make("/nowhere/lib.so")
    with pytest.raises(RuntimeError, match="does not export TVMFFIGetVersion"):
        native.XGrammarLibrary(llguidance_lib.__file__)
    with pytest.raises(RuntimeError, match="does not export llg_get_version"):
        native.LLGuidanceLibrary(tvm_ffi)


def test_a_handle_of_another_type_is_refused() -> None:
    import xgrammar

    library = native.XGrammarLibrary(str(libinfo.find_libtvm_ffi()))
    info = xgrammar.TokenizerInfo([b"a", b""], vocab_size=2, stop_token_ids=[1])
    compiled = xgrammar.GrammarCompiler(info).compile_regex("a")
    with pytest.raises(RuntimeError, match="not that of an xgrammar matcher"):
        library.grammar(native.NativeVocabulary((b"a", b""), (1,)), compiled._handle.__chandle__())


@BOTH
def test_a_matcher_outlives_its_grammar_and_its_backend(name: str) -> None:
    matcher = (
        create_backend(name, VOCABULARY, native=True).compile(GUIDES[2], GuideConfig()).matcher()
    )
    gc.collect()
    row = np.zeros(VOCABULARY.num_words, np.int32)
    for text in (b"1", b"2", b"!"):
        matcher.fill(row)
        assert matcher.accept(text[0])
    matcher.fill(row)
    assert allowed_in(row) == list(VOCABULARY.eos_token_ids)
