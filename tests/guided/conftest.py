"""Owns the fixtures of the tests of guides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from specguide.config import GuideConfig
from specguide.guided.compile import GrammarCompiler
from specguide.tokenizer.vocabulary import Vocabulary


@pytest.fixture
def new_compiler() -> Iterator[Callable[..., GrammarCompiler]]:
    """Makes compilers by the fields of their GuideConfig. They are closed behind the test."""
    with ExitStack() as stack:

        def make(vocabulary: Vocabulary, **fields: Any) -> GrammarCompiler:
            made = GrammarCompiler(vocabulary, GuideConfig(**fields))
            return stack.enter_context(closing(made))

        yield make
