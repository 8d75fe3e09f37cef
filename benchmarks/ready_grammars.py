"""Whether the real parsers of their languages read all texts that the ready grammars allow.

    python -m benchmarks.ready_grammars [--num 1000] [--names json,csv] [--seed 1]

Walks at random through each grammar under each backend that takes it, and gives each text to the
parser of its language: sqlite3, csv, PyYAML, ast, chess, pydot, unidiff. Where there is none the
walk alone counts, which may not come to a dead end. Needs the extra [dev]. Prints a table, then one
JSON line.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.guides.walks import PARSERS, VOCABULARY, walk
from specguide.config import GuideConfig
from specguide.errors import UserError
from specguide.guide import Guide
from specguide.guide.ready_grammars import MARK, ReadyGrammar, ready_grammar, ready_grammars
from specguide.guided.backends import CompiledGrammar, backend_names
from specguide.guided.compile import GrammarCompiler


def guide_of(one: ReadyGrammar, backend: str) -> Guide:
    """The guide of a ready grammar, by its name."""
    name = MARK + one.name
    if one.is_schema:
        return Guide(json_schema=name, backend=backend)
    return Guide(grammar=name, backend=backend)


def wrong_texts(
    name: str, grammar: CompiledGrammar, rng: random.Random, num: int
) -> dict[str, str]:
    """The texts of `num` walks that the language's parser refuses, each with the parser's
    message."""
    wrong: dict[str, str] = {}
    parse = PARSERS.get(name, len)
    for index in range(num):
        text = f"walk {index}"
        try:
            text = walk(grammar, rng)
            parse(text)
        except Exception as error:  # each parser has errors of its own
            wrong[text] = f"{type(error).__name__}: {error}"
    return wrong


def measured(compiler: GrammarCompiler, args: argparse.Namespace, name: str) -> dict[str, Any]:
    """For each backend: texts, wrong texts, seconds. A backend that refuses the grammar is left
    out."""
    found: dict[str, Any] = {}
    for backend in backend_names():
        try:
            grammar = compiler.compile(guide_of(ready_grammar(name), backend))
        except UserError:
            continue
        start = time.perf_counter()
        wrong = wrong_texts(name, grammar, random.Random(args.seed), args.num)
        seconds = time.perf_counter() - start
        found[backend] = {"texts": args.num, "wrong": len(wrong), "seconds": round(seconds, 2)}
        right = args.num - len(wrong)
        print(f"{name:20} {backend:11} {right:6} of {args.num} right   {seconds:6.1f} s")
        for text, words in list(wrong.items())[:3]:
            print(f"    {text!r}: {words}")
    return found


def main() -> None:
    """Run it."""
    parser = argument_parser(__doc__)
    parser.add_argument("--num", type=int, default=1000)
    parser.add_argument("--names", default=",".join(ready_grammars()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of Python, for one: 1 is 2
    compiler = GrammarCompiler(VOCABULARY, GuideConfig())
    result = {name: measured(compiler, args, name) for name in args.names.split(",")}
    compiler.close()
    emit("ready_grammars", {"num": args.num, "seed": args.seed}, result, save=not args.no_save)


if __name__ == "__main__":
    main()
