"""Grammars whose ends are known, and what their matchers allow."""

from __future__ import annotations

import numpy as np

from specguide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.matcher import allowed_tokens
from specguide.guided.wrappers.endings import EndingGrammar
from specguide.tokenizer.vocabulary import Vocabulary


def compiled(compiler: GrammarCompiler, guide: Guide) -> EndingGrammar:
    grammar = compiler.compile(guide)
    assert isinstance(grammar, EndingGrammar)
    return grammar


def allowed(matcher, vocabulary: Vocabulary) -> list[int]:
    row = np.zeros(vocabulary.num_words, np.int32)
    matcher.fill(row)
    return allowed_tokens(row).tolist()
