"""Owns the fixture of a compiler of grammars, which many files of tests have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal

import pytest

from specguide.config import GuideConfig
from specguide.guided.compile import GrammarCompiler
from specguide.tokenizer.vocabulary import Vocabulary


def compiler_of(
    vocabulary: Vocabulary,
    config: GuideConfig | None = None,
    scope: Literal["function", "module"] = "module",
) -> Any:
    """A fixture: one compiler for all tests of `scope`, which is closed behind them."""

    @pytest.fixture(scope=scope)
    def compiler() -> Iterator[GrammarCompiler]:
        with closing(GrammarCompiler(vocabulary, config or GuideConfig())) as made:
            yield made

    return compiler
