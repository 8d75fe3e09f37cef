"""Random schemas of several drafts through the compiler, which takes no text that is no instance,
and leads to none."""

from __future__ import annotations

import json
from random import Random

import pytest
from one_compiler import compiler_of
from topical_schemas import instance, topical_schema

from specguide.bench.instances import BYTES, draw, takes, texts
from specguide.bench.validation import violation
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.wrappers.endings import EndingGrammar

compiler = compiler_of(BYTES)


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_what_is_taken_is_an_instance(compiler: GrammarCompiler, start: int) -> None:
    num_valid = 0
    for seed in range(start, start + 30):
        choose = Random(seed)
        schema = topical_schema(choose)
        try:
            grammar = compiler.compile(Guide(json_schema=schema))
        except InvalidGuide:
            continue
        for value in [instance(choose) for _ in range(40)]:
            is_valid = violation(schema, json.dumps(value)) is None
            is_taken = any(takes(grammar, text) for text in texts(value, schema))
            assert is_valid or not is_taken, (seed, schema, value)
            num_valid += is_valid and is_taken
        ending = grammar.within(200) if isinstance(grammar, EndingGrammar) else grammar
        for _ in range(3):
            text = draw(ending.matcher(), choose, max_len=150)
            assert text is None or violation(schema, text) is None, (seed, schema, text)
    assert num_valid > 100
