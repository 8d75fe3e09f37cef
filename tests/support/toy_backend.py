"""A grammar backend in one file, as one would stand in the folder of backends: choices and ASCII
regular expressions, walked byte by byte along an automaton."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.adapters.python_matcher import LibraryMatcher
from specguide.guided.backend import Rewritten, Written, as_given
from specguide.guided.backend_spec import BackendSpec, Library
from specguide.guided.matcher import Row
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import literals
from specguide.tokenizer.vocabulary import Vocabulary

NAME = "toy"


class ToyMatcher(LibraryMatcher):
    """Its states, one for each accepted token, and the start."""

    def __init__(self, vocabulary: Vocabulary, pattern: Automaton) -> None:
        super().__init__(vocabulary)
        self._pattern = pattern
        self._states = [0]

    def _after(self, token: int) -> int | None:
        state: int | None = self._states[-1]
        for byte in self._vocabulary.token_bytes[token]:
            edges = self._pattern.edges[state] if state is not None else ()
            state = next((to for low, high, to in edges if low <= byte <= high), None)
        return state

    def _take(self, token: int) -> bool:
        state = self._after(token)
        if state is not None:
            self._states.append(state)
        return state is not None

    def _write_row(self, row: Row) -> None:
        bits = np.zeros(len(row) * 32, bool)
        for token, token_bytes in enumerate(self._vocabulary.token_bytes):
            bits[token] = bool(token_bytes) and self._after(token) is not None
        bits[list(self._vocabulary.eos_token_ids)] = self._may_end()
        row[:] = np.packbits(bits, bitorder="little").view(np.int32)

    def _undo(self, n: int) -> None:
        del self._states[-n:]

    def _may_end(self) -> bool:
        return self._states[-1] in self._pattern.accepting


@dataclass(frozen=True)
class ToyCompiled:
    vocabulary: Vocabulary
    pattern: Automaton
    num_bytes: int
    used_bytes: int = 0
    backend: str = NAME

    def matcher(self) -> ToyMatcher:
        return ToyMatcher(self.vocabulary, self.pattern)


class ToyBackend:
    """Over one vocabulary."""

    native = False

    def __init__(self, vocabulary: Vocabulary, _library: None) -> None:
        self._vocabulary = vocabulary

    def outline(self, written: Written, rewritten: Rewritten) -> None:
        return None

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        return Written(rewritten.kind, rewritten.kind, json.dumps(rewritten.value))

    def compile(self, guide: Guide | Written, limits: GuideConfig) -> ToyCompiled:
        written = self.write(as_given(guide), limits) if isinstance(guide, Guide) else guide
        pattern = _PATTERNS[written.form](json.loads(written.text))
        return ToyCompiled(self._vocabulary, pattern, 64 * len(pattern.edges))


def _choice(options: list[str]) -> Automaton:
    return automaton(literals(option.encode().decode("latin-1") for option in options))


def _regex(text: str) -> Automaton:
    pattern = automaton(parse(text))
    if any(high > 127 for edges in pattern.edges for _, high, _ in edges):
        raise UnsupportedGuide("toy reads regular expressions over ASCII alone", keyword="regex")
    return pattern


_PATTERNS = {"choice": _choice, "regex": _regex}


class ToyAdapter:
    """Nothing is to be loaded."""

    bind = ToyBackend

    def native_library(self) -> tuple[None, str]:
        return None, "it is written in Python"


SPEC = BackendSpec(NAME, Library(ToyAdapter), kinds=frozenset(_PATTERNS))
