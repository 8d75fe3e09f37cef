"""The ready grammars: each one's samples under each backend that takes it, and random texts of it
with the parser of its language."""

from __future__ import annotations

import json
import pickle
import random
import warnings
from pathlib import Path

import pytest
from one_compiler import compiler_of
from typer.testing import CliRunner

from benchmarks.guides.walks import END, PARSERS, VOCABULARY
from benchmarks.ready_grammars import guide_of, wrong_texts
from specguide.cli import app
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UserError
from specguide.guide import Guide
from specguide.guide.ready_grammars import (
    ReadyGrammar,
    grammars_folder,
    ready_grammar,
    ready_grammars,
)
from specguide.guided.backends import CompiledGrammar, backend_names
from specguide.guided.compile import GrammarCompiler

READY = [pytest.param(one, id=name) for name, one in ready_grammars().items()]

compiler = compiler_of(VOCABULARY, GuideConfig(isolate_compiles=False))


@pytest.fixture(params=backend_names())
def grammar(request: pytest.FixtureRequest, compiler: GrammarCompiler) -> CompiledGrammar:
    """The compiled form of the test's ready grammar."""
    one: ReadyGrammar = request.getfixturevalue("one")
    try:
        return compiler.compile(guide_of(one, request.param))
    except UserError:
        pytest.skip(f"{request.param} does not take it")


def takes(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    return all(matcher.accept(byte) for byte in text.encode()) and matcher.accept(END)


@pytest.mark.parametrize("one", READY)
def test_it_takes_what_is_valid_and_refuses_what_is_not(one: ReadyGrammar, grammar):
    valid, invalid = one.samples("valid"), one.samples("invalid")
    assert [text for text in valid + invalid if takes(grammar, text)] == valid


@pytest.mark.parametrize("one", READY)
def test_random_texts_are_of_the_language(one: ReadyGrammar, grammar):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python, for one: 1 is 2
        assert wrong_texts(one.name, grammar, random.Random(2), 20) == {}


@pytest.mark.parametrize("one", READY)
def test_the_samples_are_right(one: ReadyGrammar):
    assert len(one.samples("valid")) >= 2 and len(one.samples("invalid")) >= 3
    parse = PARSERS.get(one.name, len)
    for text in one.samples("valid"):
        parse(text)


@pytest.mark.parametrize("one", READY)
def test_some_backend_takes_it_and_it_says_what_it_is(one: ReadyGrammar, compiler):
    assert compiler.compile(guide_of(one, "auto")).num_bytes > 0
    assert one.about.endswith(".") and "Source: " in one.text
    assert max(map(len, one.text.splitlines())) <= 100


def test_every_file_of_the_library_is_found():
    folders = [grammars_folder() / one for one in ("lark", "ebnf", "schemas")]
    files = [path for folder in folders for path in folder.iterdir()]
    grammars = [path for path in files if path.suffix not in (".valid", ".invalid")]
    assert {path.stem for path in grammars} == set(ready_grammars())
    assert len(grammars) == len(ready_grammars())  # no name is in two folders
    assert len(files) == 3 * len(grammars)


def test_the_page_on_grammars_names_every_one():
    page = (Path(__file__).parents[2] / "docs" / "grammars.md").read_text(encoding="utf-8")
    assert [name for name in ready_grammars() if f"`{name}`" not in page] == []


def test_legal_moves_of_chess_are_taken(compiler):
    import chess

    grammar, rng = compiler.compile(Guide(grammar="@chess_move")), random.Random(3)
    board = chess.Board()
    for _ in range(120):
        moves = list(board.legal_moves)
        if not moves:
            break
        assert all(takes(grammar, board.san(move)) for move in moves)
        board.push(rng.choice(moves))


def test_a_guide_takes_a_name():
    sql = Guide(grammar="@sql_select")
    assert sql == Guide(grammar=ready_grammar("sql_select").text)
    assert pickle.loads(pickle.dumps(sql)) == sql
    ids = Guide(json_schema="@ids")
    assert json.loads(ids.source())["required"] == ["uuid"]
    assert Guide(grammar="@ids").grammar.startswith("start: %json {")


@pytest.mark.parametrize(
    ("value", "words", "param"),
    [
        (
            {"grammar": "@sql_selekt"},
            "similar names: @sql_select; `specguide grammars list`",
            "grammar",
        ),
        ({"grammar": "@"}, "no ready grammar ''", "grammar"),
        ({"json_schema": "@id"}, "@ids", "json_schema"),
        ({"json_schema": "@csv"}, "give it as `grammar`", "json_schema"),
    ],
)
def test_a_name_that_there_is_not(value, words, param):
    with pytest.raises(InvalidGuide, match=words) as caught:
        Guide(**value)
    assert caught.value.param == param


def test_the_command_lists_and_shows_them():
    runner = CliRunner()
    listed = runner.invoke(app, ["grammars", "list"]).output
    assert all(f"@{name} " in listed for name in ready_grammars())
    assert runner.invoke(app, ["grammars", "show", "@csv"]).output == ready_grammar("csv").text
    assert isinstance(runner.invoke(app, ["grammars", "show", "cvs"]).exception, InvalidGuide)
