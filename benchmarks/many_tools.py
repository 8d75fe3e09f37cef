"""What many tools and tags cost until their first mask, with the vocabulary of 128,256 tokens.

    SPECGUIDE_DATA=… python -m benchmarks.many_tools [--cases hermes:500,tags:200] [--isolated]

The tools of BFCL in the order of the file, one of each name, as a model family's tool calls or as
triggered structural tags. Each guide is made of the request's tools, compiled, and its first row is
filled: with tools that were never seen (cold: each has a property of a new name besides its own);
once more (warm); and with one of the tools never seen (one new). Then the first row of a cold
tool's arguments, from its call's beginning on (entered). Milliseconds of processor time of all that
the row waits for, and on the clock, beside what nobody waits for; and till all is there, such as
how texts end (whole); each the least of --repeats. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.common import argument_parser, data_path, emit, read_jsonl
from benchmarks.guides.compile_clock import CompileClock
from benchmarks.guides.real_text import load_vocabulary
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.tools import Tool, tool_formats, tool_guide
from specguide.guided.tools.call_starts import parts_of
from specguide.guided.tools.formats import with_id
from specguide.tokenizer.vocabulary import Vocabulary

Tools = list[Tool]
Make = Callable[[Tools], Guide]
LIMITS = GuideConfig(compile_timeout_s=60)
CASES = "hermes:1,hermes:50,hermes:500,gpt_oss:500,llama3_json:500,kimi_k2:500,qwen3_coder:500,"
CASES += "glm45:500,tags:1,tags:50,tags:200"
TRIGGER = "<function="
FIRST_SPECIAL = 128_100
_IDLE_S = 0.02
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
    ids = {text: FIRST_SPECIAL + i for i, text in enumerate(one.special_tokens)}
    return lambda tools: tool_guide(one, tools, ids.get, LIMITS)


def beginning(form: str, name: str) -> list[str | int]:
    """A call up to its arguments: texts, and special tokens."""
    if form == "tags":
        return [f"{TRIGGER}{name}>"]
    one = tool_formats()[form]
    ids = {text: FIRST_SPECIAL + i for i, text in enumerate(one.special_tokens)}
    lead = one.after_lead if one.begins_inside else ""
    text = with_id(lead + one.opening + name + one.before_arguments, 0)
    return [ids.get(part, part) for part in parts_of(text, one.special_tokens)]


def spelt(vocabulary: Vocabulary, parts: Iterable[str | int]) -> list[int]:
    """Tokens of a text, the longest first."""
    tokens: list[int] = []
    for part in parts:
        rest = b"" if isinstance(part, int) else part.encode()
        tokens += [part] if isinstance(part, int) else []
        while rest:
            known = (rest[:end] for end in range(len(rest), 0, -1))
            found = next(text for text in known if text in vocabulary.ids_by_bytes)
            tokens.append(vocabulary.ids_by_bytes[found])
            rest = rest[len(found) :]
    return tokens


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


class Clocks:
    """Times by the processor and by the clock."""

    def __init__(self) -> None:
        self._clock, self.processor_s = time.perf_counter(), time.process_time()
        self._here = time.thread_time()

    def passed(self) -> tuple[float, float]:
        """Milliseconds since the beginning."""
        clock, processor = time.perf_counter(), time.process_time()
        return 1e3 * (processor - self.processor_s), 1e3 * (clock - self._clock)

    def passed_here(self) -> float:
        """Milliseconds of the processor, of this thread alone."""
        return 1e3 * (time.thread_time() - self._here)


def wait_until_idle() -> None:
    """Wait until no compiler works any more, for example on how a part's texts end."""
    before = -1.0
    while time.process_time() - before > _IDLE_S / 10:
        before = time.process_time()
        time.sleep(_IDLE_S)


def measure(compiler: GrammarCompiler, form: str, tools: Tools, args: argparse.Namespace) -> dict:
    """The least times by what was known before."""
    make, row = maker(form), np.zeros(args.num_words, np.int32)
    times: dict[str, list[tuple[float, float]]] = {}
    whole: dict[str, list[float]] = {}
    for _ in range(args.repeats):
        cold = [unseen(tool) for tool in tools]
        middle = len(cold) // 2
        for name, asked in (
            ("cold", cold),
            ("warm", cold),
            ("one new", [*cold[:middle], unseen(cold[middle]), *cold[middle + 1 :]]),
        ):
            clocks = Clocks()
            compiled = CompileClock(compiler, make(asked), clocks.processor_s)
            waited = Clocks()
            matcher = compiled.grammar.matcher()
            matcher.fill(row)
            ms = compiled.told_ms + waited.passed_here()
            times.setdefault(name, []).append((ms, clocks.passed()[1]))
            whole.setdefault(name, []).append(compiled.whole_ms())
        tokens = spelt(args.vocabulary, beginning(form, cold[middle].name))
        clocks = Clocks()
        if not all(map(matcher.accept, tokens)):
            raise SystemExit(f"{form}: a call of {cold[middle].name} cannot begin")
        matcher.fill(row)
        times.setdefault("entered", []).append(clocks.passed())
        wait_until_idle()
    return {
        name: {
            "processor_ms": round(min(found)[0], 2),
            "clock_ms": round(min(c for _, c in found), 2),
            **({"whole_ms": round(min(whole[name]), 2)} if name in whole else {}),
        }
        for name, found in times.items()
    }


def run(vocabulary: Vocabulary, args: argparse.Namespace) -> dict[str, dict]:
    """Figures by case; the reason where a case is refused."""
    args.vocabulary = vocabulary
    args.num_words = vocabulary.num_words
    config = GuideConfig(compile_timeout_s=60, backend=args.backend, isolate_compiles=args.isolated)
    compiler = GrammarCompiler(vocabulary, config)
    tools = all_tools()
    found = {}
    compiler.compile(as_tags(tools[-1:]))  # which binds the libraries to the vocabulary
    for case in args.cases.split(","):
        form, number = case.split(":")
        try:
            found[case] = measure(compiler, form, tools[: int(number)], args)
        except SpecguideError as error:
            found[case] = {"refused": str(error)[:200]}
        print(f"{case:16}", *found[case].items(), sep="  ", flush=True)
    compiler.close()
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--cases", default=CASES, help="a format or tags, and how many tools")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--isolated", action="store_true", help="compile as a server does")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--note", default="", help="kept with the result")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    vocabulary, _ = load_vocabulary()
    result = run(vocabulary, args)
    del args.vocabulary
    emit("many_tools", vars(args), result, save=not args.no_save)


if __name__ == "__main__":
    main()
