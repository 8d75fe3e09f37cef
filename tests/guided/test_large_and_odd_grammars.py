"""Grammars that compiled and then failed: many choices, many branches, and rules whose walk cannot
be taken back."""

from __future__ import annotations

import random
import time

import pytest
from byte_vocabulary import VOCABULARY, backend, takes
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.lark.attributes import lark_attributes
from specguide.guided.lark.lazy import empty_lazy_expression, greedy_lazy_expression
from specguide.guided.lark.source import as_lark_reads
from specguide.tokenizer.vocabulary import Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"

compiler = compiler_of(VOCABULARY)


def words(count: int) -> list[str]:
    chance = random.Random(count)
    return ["".join(chance.choices(LETTERS, k=chance.randint(4, 12))) for _ in range(count)]


@pytest.mark.parametrize(("name", "count"), [("llguidance", 15_000), ("xgrammar", 1500)])
def test_a_choice_may_have_many_words(name: str, count: int) -> None:
    found = words(count)
    grammar = backend(name, True).compile(Guide(choice=found), GuideConfig())
    assert all(takes(grammar, word) for word in found[::150])
    assert not any(takes(grammar, word) for word in ("zzzz", found[0] + "!", found[0][:-1], ""))


@pytest.mark.parametrize(
    "form", ["start: X\nX: %s", "start: X+\nX: %s", "start: %s", 'start: "(" (%s) ")" | %s']
)
@pytest.mark.parametrize("branch", ['"%s"', "/%s[0-9]{0,9}/", "/[a-z]{1,30}%s/"])
def test_a_grammar_may_have_many_branches(
    compiler: GrammarCompiler, form: str, branch: str
) -> None:
    found = words(900)
    body = " | ".join(branch % word for word in found)
    try:
        grammar = compiler.compile(Guide(grammar=form.replace("%s", body)))
    except UnsupportedGuide as error:
        assert "terminals take too many steps" in str(error)
        return
    for word in found[::300]:
        text = "abc" + word if "{1,30}" in branch else word
        assert takes(grammar, text) and not takes(grammar, text + "!")


def test_many_rules_that_may_begin_alike_are_walked(compiler: GrammarCompiler) -> None:
    found = words(700)
    rules = "\n".join(f'r{i}: "{word}" start | "x"' for i, word in enumerate(found))
    grammar = compiler.compile(
        Guide(grammar=f"start: {' | '.join(f'r{i}' for i in range(len(found)))}\n{rules}")
    )
    assert takes(grammar, found[3] + found[600] + "x") and not takes(grammar, found[3])


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("max_tokens=3", "max_tokens"),
        ('stop="y"', "stop"),
        ('lazy, stop="y"', "stop"),
        ('stop=":", max_tokens=3', "max_tokens"),
        ("temperature=0.5", "temperature"),
        ('suffix="]:", temperature=0.5', "temperature"),
    ],
)
@pytest.mark.parametrize(
    "rule", ['start: text "b"\ntext[%s]: /x+/', 'start: "s" text | "b"\n?text.2 [%s]: /x+/']
)
def test_attributes_that_cannot_be_enforced_are_refused_by_name(
    compiler: GrammarCompiler, rule: str, attribute: str, name: str
) -> None:
    with pytest.raises(UnsupportedGuide, match=name + "="):
        compiler.compile(Guide(grammar=rule % attribute))


@pytest.mark.parametrize("attribute", ["max_tokens=3", 'stop="y"'])
def test_they_are_refused_where_an_end_comes_first_of_what_is_allowed(attribute, new_compiler):
    vocabulary = Vocabulary(token_bytes=(b"", b"x", b"y"), eos_token_ids=(0,))
    compiler = new_compiler(vocabulary)
    with pytest.raises(UnsupportedGuide, match=attribute.partition("=")[0]):
        compiler.compile(Guide(grammar=f"start: text\ntext[{attribute}]: /x*/"))


@pytest.mark.parametrize("attribute", ['suffix="y"', "lazy", "capture", 'capture="temperature="'])
def test_attributes_that_change_nothing_else_are_taken(
    compiler: GrammarCompiler, attribute: str
) -> None:
    grammar = compiler.compile(
        Guide(grammar=f'start: text " temperature=" /[0-9]/\ntext[{attribute}]: /xx*/')
    )
    text = "xy" if "suffix" in attribute else "x"
    assert takes(grammar, text + " temperature=1")


LAZY = (
    'start: "<" /.*?/ ">"',
    'start: S ("," S)*\nS: /".*?"/',
    "start: a\na[lazy]: /b*?/\n?c: /(?:a)[?]x{2,}?/",
    "start: a // /\na:\n  | /(?s:.)+?;/ // a[lazy]",
)
HARMLESS = (
    'start: /"[^"]*?"/',
    'start: text "!"\ntext[lazy]: /x/\n  | /.*?;/',
    'start: "/a*?/" A? # "a*? /\nA: /[*?]\\*?(?:a)?/',
    'start: %json {"const": "/a*?/"}',
)


@pytest.mark.parametrize("source", LAZY)
def test_a_lazy_repetition_that_would_be_greedy_is_refused(
    compiler: GrammarCompiler, source: str
) -> None:
    with pytest.raises(UnsupportedGuide, match="lazy repetition in /"):
        compiler.compile(Guide(grammar=source))


@pytest.mark.parametrize("body", ["/.*/", '/(ab)?/ | "c"', "/a*/ // b"])
def test_a_lazy_rule_that_would_always_be_empty_is_refused(
    compiler: GrammarCompiler, body: str
) -> None:
    with pytest.raises(UnsupportedGuide, match=r"/.*/ may be empty"):
        compiler.compile(Guide(grammar=f'start: text "x"\n?text[ lazy ]: {body}'))


@pytest.mark.parametrize("body", ['/a*/ ";"', "/a*/ /b/", "/a*;/"])
def test_a_lazy_rule_with_an_end_is_taken(compiler: GrammarCompiler, body: str) -> None:
    grammar = compiler.compile(Guide(grammar=f'start: text "x"\ntext[lazy]: {body}'))
    end = "b" if "b" in body else ";"
    assert takes(grammar, f"aa{end}x") and not takes(grammar, f"a{end}{end}x")


def test_the_name_of_a_token_is_no_expression() -> None:
    assert greedy_lazy_expression('start: "x" </tool> /a.*?b/ "c"') == "a.*?b"
    assert greedy_lazy_expression('start: </a> ("a" | "*? ") </b> | "a" < "b" /a*?b/') is None


@pytest.mark.parametrize("source", HARMLESS)
def test_one_that_changes_nothing_is_taken(compiler: GrammarCompiler, source: str) -> None:
    assert compiler.compile(Guide(grammar=source)).num_bytes > 0


@pytest.mark.parametrize(
    "unit", ["a[b=", '"', '\\"', "a ", "/", "[", 'a["', "x", "a[\n", "{1", "??", "<", "\n#"]
)
def test_attributes_are_found_in_linear_time(unit: str) -> None:
    def seconds(length: int) -> float:
        begin = time.perf_counter()
        list(lark_attributes("a[" + unit * (length // len(unit))))
        greedy_lazy_expression("a[" + unit * (length // len(unit)) + "*?")
        empty_lazy_expression("a[lazy]: /" + unit * (length // len(unit)) + "*/")
        as_lark_reads("a[" + unit * (length // len(unit)) + "\n #")
        return time.perf_counter() - begin

    seconds(1000)
    assert min(seconds(200_000) for _ in range(3)) < 0.1 + 40 * min(
        seconds(20_000) for _ in range(3)
    )


@pytest.mark.parametrize("most", [70, 78, 84, 92, 105, 253])
@pytest.mark.parametrize(
    "schema",
    [
        '{"pattern": "^(?=.{1,MOST}$)[a-z]+(?:[.-][a-z]+)*$"}',
        '{"not": {"pattern": "^(?:[^a-z]|[a-z]{MOST})"}}',
        '{"type": "object", "propertyNames": {"pattern": "^[a-z]+$", "maxLength": MOST}}',
    ],
)
def test_a_long_count_beside_a_pattern_is_served(
    compiler: GrammarCompiler, schema: str, most: int
) -> None:
    """What both have in common would be written with a group inside a group for each character."""
    grammar = compiler.compile(Guide(json_schema=schema.replace("MOST", str(most))))
    form = '{"%s": 1}' if "propertyNames" in schema else '"%s"'
    for text, is_instance in (("ab", True), ("x" * (most - 1), True), ("x" * (most + 1), False)):
        assert takes(grammar, form % text) == is_instance
    assert not takes(grammar, form % "A")


@pytest.mark.parametrize("name", ["llguidance", "xgrammar"])
def test_an_alternative_of_ebnf_may_say_nothing(name, new_compiler):
    """llama.cpp's own grammars have such alternatives."""
    made = new_compiler(VOCABULARY, backend=name)
    source = 'root ::= ("[" ws "]" | ) ws\nws ::= | " " | "\\n" [ \\t]{0,20} # |\n'
    grammar = made.compile(Guide(grammar=source))
    assert all(takes(grammar, text) for text in ("", " ", "[]", "[ ]\n\t"))
    assert not any(takes(grammar, text) for text in ("[", "[]  ", "\t"))
