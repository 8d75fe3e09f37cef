"""EBNF grammars of users: what odd ones come to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from byte_vocabulary import VOCABULARY, takes

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler


@pytest.fixture(scope="module")
def compiler() -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(VOCABULARY, GuideConfig())
    yield made
    made.close()


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("root ::= root", "root"),
        ("root ::= root{2,}", "root"),
        ('root ::= "" (root{0,3})', "root"),
        ("root ::= (root)+", "root"),
        ('root ::= "a" | b\nb ::= b{2} # again\n', "b"),
        ('root ::= "a" | c | b\nb ::= c{2}\nc ::= b', "b"),
    ],
)
def test_a_rule_that_is_itself_again_is_refused_by_name(
    compiler: GrammarCompiler, source: str, rule: str
) -> None:
    """xgrammar would end the process over most of them."""
    with pytest.raises(InvalidGuide, match=f"the rule {rule} of the grammar is nothing but itself"):
        compiler.compile(Guide(grammar=source))


@pytest.mark.parametrize(
    ("source", "texts", "others"),
    [
        ("root ::= root*", [""], ["a"]),
        ('root ::= "a" | root{2}', ["a", "aa"], ["", "b"]),
        ('root ::= ("a" | root){2,}', ["aa", "aaa"], ["", "a"]),
        ('root ::= b{2} | "x"\nb ::= "[" root "]"', ["x", "[x][x]"], ["[x]", ""]),
    ],
)
def test_a_rule_may_hold_itself_beside_something_else(
    compiler: GrammarCompiler, source: str, texts: list[str], others: list[str]
) -> None:
    grammar = compiler.compile(Guide(grammar=source))
    assert all(takes(grammar, text) for text in texts)
    assert not any(takes(grammar, text) for text in others)
