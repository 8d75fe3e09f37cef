"""What many tools and tags cost until their first mask, over the vocabulary of 128,256 tokens.

    SPECGUIDE_DATA=… python -m benchmarks.many_tools [--cases hermes:500,tags:200] [--isolated]

The tools of BFCL in the order of the file, one of each name, as a model family's tool calls or as
triggered structural tags. Each guide is made of the request's tools, compiled, and its first row is
filled: with tools that were never seen (cold: each has a property of a new name besides its own);
once more (warm); and with one of the tools never seen (one new). Milliseconds of processor time of
this process, and in brackets on the clock; the least of --repeats. Prints a table, then one JSON
line.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable

import numpy as np

from benchmarks.common import data_path, emit, read_jsonl
from benchmarks.real_text import load_vocabulary
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.tools import Tool, tool_formats, tool_guide
from specguide.tokenizer.vocabulary import Vocabulary

Tools = list[Tool]
Make = Callable[[Tools], Guide]
LIMITS = GuideConfig(compile_timeout_s=60)
CASES = "hermes:1,hermes:50,hermes:500,gpt_oss:500,qwen3_coder:500,tags:1,tags:50,tags:200"
TRIGGER = "<function="
_numbers = itertools.count()


def all_tools() -> Tools:
    """BFCL's, the first of each name."""
    found: dict[str, Tool] = {}
    for record in read_jsonl(data_path("bfcl.jsonl")):
        for tool in record["tools"]:
            told = tool["function"]
            found.setdefault(told["name"], Tool(told["name"], told["parameters"]))
    return list(found.values())


def unseen(tool: Tool) -> Tool:
    """The tool with a property more, of a name that no other has."""
    parameters = json.loads(json.dumps(tool.parameters))
    parameters.setdefault("properties", {})[f"unseen_{next(_numbers)}"] = {"type": "string"}
    return Tool(tool.name, parameters)


def maker(form: str) -> Make:
    """Makes guides of tools: "tags", or the name of a family's format, with its marks as special
    tokens."""
    if form == "tags":
        return as_tags
    one = tool_formats()[form]
    ids = {text: 128_100 + i for i, text in enumerate(one.special_tokens)}
    return lambda tools: tool_guide(one, tools, ids.get, LIMITS)


def as_tags(tools: Tools) -> Guide:
    """Structural tags, one a tool."""
    tags = [
        {
            "begin": f"{TRIGGER}{tool.name}>",
            "content": {"type": "json_schema", "json_schema": tool.parameters},
            "end": "</function>",
        }
        for tool in tools
    ]
    form = {"type": "triggered_tags", "triggers": [TRIGGER], "tags": tags}
    return Guide(structural_tag={"type": "structural_tag", "format": form})


def first_mask(
    compiler: GrammarCompiler, make: Make, tools: Tools, num_words: int
) -> tuple[float, float]:
    """Time until the first row: the processor's and the clock's, milliseconds."""
    row = np.zeros(num_words, np.int32)
    clock = time.perf_counter()
    processor = time.process_time()
    matcher = compiler.compile(make(tools)).matcher()
    matcher.fill(row)
    return 1e3 * (time.process_time() - processor), 1e3 * (time.perf_counter() - clock)


def measure(compiler: GrammarCompiler, make: Make, tools: Tools, args: argparse.Namespace) -> dict:
    """The least times by what was known before."""
    times: dict[str, list[tuple[float, float]]] = {"cold": [], "warm": [], "one new": []}
    for _ in range(args.repeats):
        cold = [unseen(tool) for tool in tools]
        middle = len(cold) // 2
        for name, asked in (
            ("cold", cold),
            ("warm", cold),
            ("one new", [*cold[:middle], unseen(cold[middle]), *cold[middle + 1 :]]),
        ):
            times[name].append(first_mask(compiler, make, asked, args.num_words))
    return {
        name: {
            "processor_ms": round(min(found)[0], 2),
            "clock_ms": round(min(c for _, c in found), 2),
        }
        for name, found in times.items()
    }


def run(vocabulary: Vocabulary, args: argparse.Namespace) -> dict[str, dict]:
    """By case; the reason where a case is refused."""
    args.num_words = vocabulary.num_words
    config = GuideConfig(compile_timeout_s=60, backend=args.backend, isolate_compiles=args.isolated)
    compiler, tools, found = GrammarCompiler(vocabulary, config), all_tools(), {}
    compiler.compile(as_tags(tools[-1:]))  # which binds the libraries to the vocabulary
    for case in args.cases.split(","):
        form, number = case.split(":")
        try:
            found[case] = measure(compiler, maker(form), tools[: int(number)], args)
        except SpecguideError as error:
            found[case] = {"refused": str(error)[:200]}
        print(f"{case:16}", *found[case].items(), sep="  ", flush=True)
    compiler.close()
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help="a format or tags, and how many tools")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--isolated", action="store_true", help="compile as a server does")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--note", default="", help="kept with the result")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    vocabulary, _ = load_vocabulary()
    result = run(vocabulary, args)
    emit("many_tools", vars(args), result, save=not args.no_save)


if __name__ == "__main__":
    main()
