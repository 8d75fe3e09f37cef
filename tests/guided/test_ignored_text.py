"""Lark grammars with `%ignore` beside schemas: those that would end a request are refused, and the
others run."""

from __future__ import annotations

import random

import numpy as np
import pytest
from byte_vocabulary import EOS, VOCABULARY, backend, takes
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.matcher import allowed_tokens

INT = '%json {"type": "integer"}'
REFUSED = [
    f'start: "x" ("y" | {INT})',
    f'start: "x" {INT}? "y"',
    f'start: "x" {INT}* "y"',
    f"start: item+\nitem: WORD | {INT}\nWORD: /[a-z]+/",
    f'start: "x" more\nmore: "y"\n  | {INT} "z"',
    f'start: ("x" | {INT})~2',
    f'start: "x"+ {INT}',
    f'start: ("x" -> one | {INT} -> other)+',
    'start: "x" ("y" | %lark {\nstart: "q{" "r"\n})',
    f'start: %lark {{\nstart: "x" ("y" | {INT})\n%ignore / /\n}}',
]
TAKEN = [
    (f'start: "x" | {INT}', ["x", "1"]),
    (f'start: "x" {INT} "y"', ["x1y", "x1 y"]),
    (f'start: {INT} ("," {INT})*', ["1", "1 ,2"]),
    (f'start: "x" ({INT} | %json {{"type": "string"}})', ["x1", 'x"a"']),
    (f'start: "x" one "z"  // "y" | {INT}\none: {INT} "|" ["y"]', ["x1|z", "x1 | y z"]),
]
compiler = compiler_of(VOCABULARY)


@pytest.mark.parametrize("source", REFUSED)
def test_what_would_end_a_request_is_refused(source: str, compiler: GrammarCompiler) -> None:
    with pytest.raises(UnsupportedGuide, match="%ignore is ambiguous"):
        compiler.compile(Guide(grammar=f"{source}\n%ignore / /"))


@pytest.mark.parametrize("source", REFUSED[:5])
def test_the_library_would_end_it(source: str) -> None:
    """Once the library no longer does so, nothing need be refused."""
    guide = Guide(grammar=f"{source}\n%ignore / /")
    with pytest.raises(RuntimeError, match="grammar stack empty"):
        for seed in range(40):
            _walk(backend("llguidance", True).compile(guide, GuideConfig()), seed)


@pytest.mark.parametrize(("source", "texts"), TAKEN)
def test_others_are_taken(source: str, texts: list[str], compiler: GrammarCompiler) -> None:
    grammar = compiler.compile(Guide(grammar=f"{source}\n%ignore / /"))
    assert all(takes(grammar, text) for text in texts)
    for seed in range(20):
        _walk(grammar, seed)


def _walk(grammar: CompiledGrammar, seed: int) -> None:
    """Takes tokens that rows allow, spaces before others."""
    rng, matcher = random.Random(seed), grammar.matcher()
    row = np.zeros((len(VOCABULARY) + 31) // 32, np.int32)
    for _ in range(40):
        matcher.fill(row)
        allowed = allowed_tokens(row)
        ids = [int(token) for token in allowed if token < 256 or token == EOS]
        token = ord(" ") if ord(" ") in ids and rng.random() < 0.5 else rng.choice(ids)
        assert matcher.accept(token)
        if token == EOS:
            return
