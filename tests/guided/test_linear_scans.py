"""Owns the tests that text of users is read in linear time: ten times the text takes no hundred
times as long."""

from __future__ import annotations

import ast
import contextlib
import gc
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import specguide
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guide.guide import is_text
from specguide.guided.backends.llguidance.ignored import check_ignored
from specguide.guided.budget import Budget
from specguide.guided.limits import check_limits
from specguide.guided.notations.ebnf_expressions import with_expressions
from specguide.guided.notations.ebnf_options import without_options
from specguide.guided.notations.grammar_form import (
    grammar_form,
    has_lookahead,
    with_any_characters,
    with_empty_choices,
    with_least_counts,
    without_comments,
)
from specguide.guided.regex.nfa import TextMatcher
from specguide.guided.regex.parse import parse
from specguide.guided.regex.tree import RegexError
from specguide.guided.regex.whole import whole
from specguide.guided.select import rewrites
from specguide.server.tasks.strict import check_strict

WIDE = GuideConfig(
    max_source_bytes=1 << 30, max_values=1 << 30, max_rules=1 << 30, max_depth=1 << 30
)
SHORT, LONG = 30_000, 300_000
MOST_RATIO = 30
NUM_TRIALS = 3


def rewritten(guide: Guide, backend: str = "llguidance") -> None:
    check_limits(guide, WIDE)
    with Budget(1_000_000).counting():
        next(rewrites(guide, backend))


def ebnf(text: str) -> None:
    rewritten(Guide(grammar="root ::= " + text), "xgrammar")


def lark(text: str) -> None:
    rewritten(Guide(grammar="start: " + text))


def ignored(text: str) -> None:
    check_ignored('%ignore "x"\nstart: %json {} ' + text)


def long_of(unit: str) -> Callable[[int], str]:
    return lambda length: unit * (length // len(unit))


SCANS = {
    "grammar of new lines": (grammar_form, "\n"),
    "grammar of spaces": (grammar_form, " "),
    "grammar of root": (grammar_form, "root\n"),
    "grammar of start": (grammar_form, "start[\n"),
    "grammar of options": (grammar_form, "start [ "),
    "grammar of starts and spaces": (grammar_form, "start   \n\n"),
    "EBNF of brackets": (ebnf, "["),
    "EBNF of escaped brackets": (ebnf, "\\["),
    "EBNF of quotes": (ebnf, '"'),
    "EBNF of escaped quotes": (ebnf, '\\"'),
    "EBNF of groups": (ebnf, "( "),
    "EBNF of comments": (ebnf, "#\n"),
    "comments": (without_comments, "#\n"),
    "expressions": (lambda text: with_expressions(text, str), 'Regex("\\\\'),
    "options of rules": (without_options, "a[a]::="),
    "lookaheads": (has_lookahead, "(\n"),
    "empty choices": (with_empty_choices, "|("),
    "empty choices of rules": (with_empty_choices, "a ::= |\n"),
    "counts": (with_least_counts, "{ "),
    "any characters": (with_any_characters, "- ."),
    "Lark of schemas": (lark, "%json{"),
    "Lark of schemas and spaces": (lark, "%json    "),
    "Lark of carets": (lark, "[^"),
    "ignored text beside nested grammars": (ignored, "@a{ "),
    "ignored text beside counts": (ignored, "{"),
    "regex of braces": (lambda text: rewritten(Guide(regex=text)), "{"),
    "regex of escapes": (lambda text: rewritten(Guide(regex=text)), "\\["),
    "pattern": (lambda text: rewritten(Guide(json_schema={"pattern": text})), "(?<a>)"),
    "property name": (
        lambda text: rewritten(
            Guide(json_schema={"properties": {text: True}, "patternProperties": {"^(a+)+$": True}})
        ),
        "a",
    ),
    "property name under propertyNames": (
        lambda text: rewritten(
            Guide(
                json_schema={
                    "properties": {text: True},
                    "propertyNames": {"pattern": "^(?:(?:a|aa)+|x{500})$"},
                }
            )
        ),
        "a",
    ),
    "value": (
        lambda text: rewritten(Guide(json_schema={"enum": [text], "pattern": "^(a|aa)+$"})),
        "a",
    ),
    "JSON of quotes": (lambda text: rewritten(Guide(json_schema={"enum": [text]})), '\\"'),
    "choice": (lambda text: rewritten(Guide(choice=[text])), '"'),
    "mark of reasoning": (is_text, "a"),
}
LONG_REGEX = {
    "unions": lambda length: f"[{''.join(map(chr, range(0x4E00, 0x4E00 + 2 * length, 2)))}]",
    "braces": long_of("{"),
    "open counts": long_of("{1"),
    "anchors": long_of("^"),
    "lookaheads": long_of("(?=a)"),
    "named groups": long_of("(?<a>)"),
    "code points": long_of("\\u{61}"),
    "digits": lambda length: "{" + "1" * length,
}


def seconds(scan: Callable[[str], object], text: str) -> float:
    """CPU time; a refusal is an answer. What the collector takes is for all that is there, whoever
    calls it."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        with contextlib.suppress(InvalidGuide):
            scan(text)
        return time.process_time() - start
    finally:
        gc.enable()


Work = tuple[Callable[[str], object], str]


def is_linear(short: Work, long: Work) -> bool:
    """Whether ten times the work takes about ten times as long; a busy machine is asked again."""
    return any(seconds(*long) < MOST_RATIO * max(seconds(*short), 0.001) for _ in range(NUM_TRIALS))


@pytest.mark.parametrize("name", SCANS)
def test_scans_are_linear(name):
    scan, unit = SCANS[name]
    short, long = ((scan, unit * (length // len(unit))) for length in (SHORT, LONG))
    assert is_linear(short, long)


@pytest.mark.parametrize("name", LONG_REGEX)
def test_regular_expressions_are_read_in_linear_time(name):
    def read(text: str) -> None:
        with contextlib.suppress(RegexError):
            whole(parse(text), search=True)

    short, long = ((read, LONG_REGEX[name](length)) for length in (2_000, 20_000))
    assert is_linear(short, long)


@pytest.mark.parametrize(
    "pattern", [r"(a+)+", "(a|aa)+", "(?:(?:a|aa)+|x{500})", "(a*)*b?", "(a{0,100000}){3}"]
)
def test_a_text_is_matched_in_linear_time(pattern):
    matcher = TextMatcher(parse(pattern))
    assert matcher.matches("a" * 40)
    assert not matcher.matches("a" * 40 + "!")
    short, long = ((matcher.matches, "a" * length + "!") for length in (300, 3_000))
    assert is_linear(short, long)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a" * 40 + "!": True}, "patternProperties": {"^(a+)+$": True}},
        {
            "properties": {"a" * 40 + "!": True},
            "propertyNames": {"pattern": "^(?:(?:a|aa)+|x{500})$"},
        },
        {"enum": ["a" * 40 + "!", 1], "anyOf": [{"pattern": "^(?:(?:a|aa)+|x{500})$"}]},
    ],
)
def test_a_pattern_that_stops_a_backtracking_engine(schema):
    start = time.process_time()
    rewritten(Guide(json_schema=schema))
    assert time.process_time() - start < 5


def test_strict_schemas_are_checked_in_linear_time():
    def check(count: int) -> Callable[[str], None]:
        names = [f"p{i}" for i in range(count)]
        schema = {
            "type": "object",
            "properties": {name: {"type": "string"} for name in names},
            "required": names[::-1],
            "additionalProperties": False,
        }
        return lambda _: check_strict(schema, "schema", "schema")

    assert is_linear((check(1_000), ""), (check(10_000), ""))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("root ::= a", "EBNF"),
        ("\n  \n root\n ::= a", "EBNF"),
        ("a ::= b\nroot ::= a", "EBNF"),
        ("start: a", "Lark"),
        ("%x\n?start: a", "Lark"),
        (' !start[lazy, stop="a:b"].-2 : a', "Lark"),
        ("start\n: a", "Lark"),
        ("a ::= root ::= b", None),
        ("start:: a", None),
        ("astart: a", None),
        ("xroot ::= a", None),
        ("a: start", None),
        ("start[lazy: a", None),
    ],
)
def test_the_form_of_a_grammar(text, form):
    if form is None:
        with pytest.raises(InvalidGuide, match="neither EBNF"):
            grammar_form(text)
    else:
        assert grammar_form(text) == form


def test_literals_hold_no_lookahead_and_no_comment():
    assert not has_lookahead(r'root ::= "(= a)" [(=] "\"(=" # (= a)')
    assert has_lookahead('root ::= "[" (  = "a") "]"')
    assert has_lookahead('root ::= "a" [b # "\n (= "c")')
    assert without_comments('root ::= "#" # b\n[#] a #') == 'root ::= "#" \n[#] a '


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ('root ::= "|" | x.y-z (a | "(") [|)] # |', None),
        ("root ::=\na ::= b", None),
        ('root ::= a\nws ::= | " " | "\\n"', 'root ::= a\nws ::= "" | " " | "\\n"'),
        ('root ::= "a" | # no\n\nx ::= ( | y)', 'root ::= "a" | "" # no\n\nx ::= ( "" | y)'),
        ('root ::= ( ) | "b" |', 'root ::= ( "" ) | "b" | ""'),
    ],
)
def test_an_alternative_may_say_nothing(source, written):
    assert with_empty_choices(source) == (written or source)


def test_counts_and_any_characters_are_written_as_the_libraries_read_them():
    source = 'root ::= x.y{ ,3} . ".{,2}" [.{,2}] (.){,2}# . {,2}'
    assert with_least_counts(source) == 'root ::= x.y{0 ,3} . ".{,2}" [.{,2}] (.){0,2}# . {,2}'
    char = r"[\u0000-\U0010FFFF]"
    written = f'root ::= x.y{{ ,3}} {char} ".{{,2}}" [.{{,2}}] ({char}){{,2}}# . {{,2}}'
    assert with_any_characters(source) == written


@pytest.mark.parametrize(
    ("source", "kind", "is_refused"),
    [
        ({"enum": ['[[[\\"[', "\\", '"[']}, "json_schema", False),
        ({"enum": [[[["]"]]]]}, "json_schema", True),
        (r"\[\(\[\(a\\", "regex", False),
        (r"\\((((a))))", "regex", True),
    ],
)
def test_depth_is_that_of_unescaped_brackets(source, kind, is_refused):
    limits = GuideConfig(max_depth=3)
    guide = Guide(**{kind: source})
    if is_refused:
        with pytest.raises(InvalidGuide, match="max_depth"):
            check_limits(guide, limits)
    else:
        check_limits(guide, limits)


def is_one_run(pattern: str | bytes) -> bool:
    """Whether there is nothing to try again: characters one after the other, at most the last one
    of them repeated without end."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    parts = list(re._parser.parse(text))
    if parts and parts[-1][0] is re._constants.MAX_REPEAT:
        parts[-1:] = parts[-1][1][2]
    fixed = (re._constants.LITERAL, re._constants.IN, re._constants.NOT_LITERAL)
    return all(code in fixed for code, _ in parts)


def test_which_patterns_are_one_run():
    right, wrong = (r"\s*", rb'[^"]*', "ab[c-d]", "[a]+"), ("a*b", "(a*)*", "a|ab", ".*?x", "(a)")
    assert all(map(is_one_run, right)) and not any(map(is_one_run, wrong))


def test_what_clients_reach_has_no_backtracking_engine():
    """Other rooms read files of whoever runs the server; the tokenizer's pattern is of six
    characters, and those that read outputs are runs of one kind of byte."""
    root = Path(specguide.__file__).parent
    rooms = ("guide", "params", "guided", "server", "engine", "scheduler", "tokenizer")
    paths = [
        root / "request.py",
        root / "llm.py",
        *(path for room in rooms for path in (root / room).rglob("*.py")),
    ]
    found = {
        path.relative_to(root).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in paths
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import)
        and any(name.name in ("re", "regex", "fnmatch") for name in node.names)
    }
    assert found.pop("tokenizer/token_bytes.py")
    for path, tree in found.items():
        assert path.startswith("guided/reading/"), path
        calls = [node for node in ast.walk(tree) if is_of_re(node)]
        assert calls, path
        for call in calls:
            assert call.func.attr == "compile" and is_one_run(ast.literal_eval(call.args[0])), path


def is_of_re(node: ast.AST) -> bool:
    """A call of a function of the module."""
    of = node.func if isinstance(node, ast.Call) else None
    return isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "re"


def test_a_schema_in_a_lark_grammar_is_rewritten_where_it_stands():
    source = 'start: a "%json"\na: %json  {"const": "%json {"} b\nb: %json { nothing'
    text = next(rewrites(Guide(grammar=source), "llguidance")).value
    assert text.startswith('start: a "%json"\na: %lark {\n') and text.endswith(
        "\n} b\nb: %json { nothing"
    )
