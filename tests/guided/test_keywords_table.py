"""The keyword table against the libraries: what each does with each keyword, and that nothing gets
by the choice."""

from __future__ import annotations

import json

import pytest
from byte_vocabulary import VOCABULARY, backend, takes
from grammar_backends import WHOLE
from keyword_cases import CASES, ENFORCED, IGNORED, REFUSED, Case

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar, backend_spec
from specguide.guided.schema.core.capabilities import Level


def named(case: Case) -> str:
    return f"{case.keyword} {json.dumps(case.schema)[:60]}"


def outcome(grammar: CompiledGrammar, case: Case) -> str:
    return IGNORED if any(takes(grammar, text) for text in case.invalid) else ENFORCED


@pytest.mark.parametrize("case", CASES, ids=named)
@pytest.mark.parametrize("name", WHOLE)
def test_a_library_does_what_the_table_builds_on(name: str, case: Case) -> None:
    try:
        grammar = backend(name, True).compile(Guide(json_schema=case.schema), GuideConfig())
    except InvalidGuide:
        found = REFUSED
    else:
        found = outcome(grammar, case)
    assert found == case.outcome(name)


@pytest.mark.parametrize("keyword", backend_spec("llguidance").enforced().keywords)
@pytest.mark.parametrize("name", WHOLE)
def test_the_table_says_what_its_cases_show(name: str, keyword: str) -> None:
    shown = {case.outcome(name) for case in CASES if case.keyword == keyword}
    assert shown, "every row needs a case"
    level = {
        frozenset({ENFORCED}): Level.ENFORCED,
        frozenset({IGNORED}): Level.IGNORED,
        frozenset({REFUSED}): Level.REFUSED,
    }.get(frozenset(shown), Level.PARTIAL)
    assert backend_spec(name).enforced().keywords[keyword].level == level


@pytest.mark.parametrize("name", WHOLE)
def test_every_case_is_of_a_row(name: str) -> None:
    assert {case.keyword for case in CASES} == set(backend_spec(name).enforced().keywords)


@pytest.mark.parametrize("requested", ["auto", *WHOLE])
def test_nothing_invalid_gets_by_the_choice(new_compiler, requested):
    compiler = new_compiler(VOCABULARY, backend=requested)
    num_served = 0
    for case in CASES:
        try:
            grammar = compiler.compile(Guide(json_schema=case.schema))
        except InvalidGuide:
            continue
        num_served += 1
        assert requested in ("auto", grammar.backend)
        assert outcome(grammar, case) == ENFORCED, (named(case), grammar.backend)
        if requested == "auto" and case.keyword not in ("contains", "pattern", "maxLength"):
            assert all(takes(grammar, text) for text in case.valid), (named(case), grammar.backend)
    assert num_served >= {"auto": 85, "llguidance": 80, "xgrammar": 30}[requested]
