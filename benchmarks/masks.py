"""What a mask costs: compile, fill and accept over real-world schemas and the vocabulary of 128,256
tokens.

    SPECGUIDE_DATA=… python -m benchmarks.masks [--backends auto,llguidance,xgrammar] [--limit 300]
    [--tokens 300] …

Walks the longest valid instance of each schema on one thread, natively: fill a row, check that it
allows the next token, accept it. Schemas that a backend refuses, or whose instance it does not
take, are counted, not timed. Times are processor times, so that other work on the machine matters
little. The time of a compile is that of all threads until its caller has the grammar; a whole
compile includes what is found later, that is how texts end. Libraries are loaded before, and
garbage is collected, as in a server. The schemas with the slowest rows are named. With --forced it
also looks for so many forced drafts at each place, takes them, fills their rows, and goes back.
Prints a table, then one JSON line.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.common import argument_parser, data_path, emit, read_jsonl
from benchmarks.guides.compile_clock import CompileClock
from benchmarks.guides.real_text import Case, load_cases, load_vocabulary
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar, backend_names
from specguide.guided.compile import GrammarCompiler
from specguide.guided.matcher import Matcher
from specguide.host.processes import settle

_NUM_NAMED = 10


@dataclass
class Tally:
    """Counts of schemas, and times in microseconds."""

    counts: Counter[str] = field(default_factory=Counter)
    compile_us: list[float] = field(default_factory=list)
    whole_us: list[float] = field(default_factory=list)
    first_fill_us: list[float] = field(default_factory=list)
    fill_us: list[float] = field(default_factory=list)
    accept_us: list[float] = field(default_factory=list)
    forced_us: list[float] = field(default_factory=list)
    slowest_us: dict[str, float] = field(default_factory=dict)
    """The slowest row of each schema, but for its first one."""


def walk(
    matcher: Matcher, token_ids: list[int], num_words: int
) -> tuple[list[float], list[float]] | None:
    """Times of fills and accepts, microseconds; None where the grammar does not take the tokens."""
    row, fills, accepts = np.zeros(num_words, np.int32), list[float](), list[float]()
    for token in token_ids:
        start = time.thread_time()
        matcher.fill(row)
        filled = time.thread_time()
        if not row[token // 32] >> (token % 32) & 1:
            return None
        begin = time.thread_time()
        if not matcher.accept(token):
            raise SystemExit(f"a row allows token {token}, and the matcher refuses it")
        accepts.append(1e6 * (time.thread_time() - begin))
        fills.append(1e6 * (filled - start))
    return fills, accepts


def look_ahead(
    grammar: CompiledGrammar, token_ids: list[int], num_words: int, limit: int
) -> list[float]:
    """Times of finding, taking and filling forced drafts where there are any, microseconds."""
    matcher: Any = grammar.matcher()
    row, times = np.zeros(num_words, np.int32), list[float]()
    for token in token_ids:
        matcher.fill(row)
        begin = time.thread_time()
        num_taken = 0
        for draft in matcher.forced_drafts(row, limit):
            if not matcher.accept(draft):
                break
            num_taken += 1
            if matcher.is_terminated:
                break
            matcher.fill(row)
        if num_taken:
            times.append(1e6 * (time.thread_time() - begin))
            matcher.rollback(num_taken)
        matcher.accept(token)
    return times


def measure(
    compiler: GrammarCompiler,
    case: Case,
    num_tokens: int,
    num_forced: int,
    num_words: int,
    tally: Tally,
) -> None:
    """One schema: compiled once, walked once, and once more where forced drafts are looked for."""
    try:
        compiled = CompileClock(compiler, case.guide)
    except SpecguideError:
        tally.counts["refused"] += 1
        return
    grammar = compiled.grammar
    whole_ms = compiled.whole_ms()
    times = walk(grammar.matcher(), case.token_ids[:num_tokens], num_words)
    if times is None:
        tally.counts["instance not taken"] += 1
        return
    tally.counts["walked"] += 1
    tally.compile_us.append(1e3 * compiled.told_ms)
    tally.whole_us.append(1e3 * whole_ms)
    tally.first_fill_us.append(times[0][0])
    tally.fill_us += times[0][1:]
    tally.accept_us += times[1]
    if num_forced:
        tally.forced_us += look_ahead(grammar, case.token_ids[:num_tokens], num_words, num_forced)


def summary(tally: Tally) -> dict[str, Any]:
    """Percentiles in microseconds."""
    result: dict[str, Any] = {**tally.counts, "rows": len(tally.fill_us)}
    for name, times, quantiles in (
        ("compile", tally.compile_us, (50, 90, 99)),
        ("whole_compile", tally.whole_us, (50, 90, 99)),
        ("first_fill", tally.first_fill_us, (50, 99)),
        ("fill", tally.fill_us, (50, 99, 99.9)),
        ("accept", tally.accept_us, (50, 99)),
        ("forced", tally.forced_us, (50, 90, 99)),
    ):
        if not times:
            continue
        result[f"{name}_mean_us"] = round(float(np.mean(times)), 1)
        result |= {f"{name}_p{q}_us": round(float(np.percentile(times, q)), 1) for q in quantiles}
    slowest = sorted(tally.slowest_us, key=lambda name: -tally.slowest_us[name])[:_NUM_NAMED]
    result["slowest_fills_us"] = {name: round(tally.slowest_us[name]) for name in slowest}
    return result


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--backends", default=",".join(backend_names()))
    parser.add_argument("--limit", type=int, default=300, help="schemas")
    parser.add_argument("--tokens", type=int, default=300, help="of each instance, at most")
    parser.add_argument(
        "--forced", type=int, default=0, help="most forced drafts that are looked for at a place"
    )
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    names = [
        record["id"]
        for record in read_jsonl(data_path("jsonschemabench.jsonl"))
        if any(test["valid"] for test in record["tests"])
    ]
    vocabulary, tokenizer = load_vocabulary()
    chosen = random.Random(0).sample(names, min(args.limit, len(names)))
    cases = load_cases(tokenizer, chosen)
    result = {}
    for backend in args.backends.split(","):
        compiler, tally = (
            GrammarCompiler(vocabulary, GuideConfig(backend=backend, compile_timeout_s=60)),
            Tally(),
        )
        compiler.compile(Guide(json_schema={"type": "string"}))
        settle()
        for name, case in zip(chosen, cases, strict=True):
            num_before = len(tally.fill_us)
            measure(compiler, case, args.tokens, args.forced, vocabulary.num_words, tally)
            tally.slowest_us[name] = max(tally.fill_us[num_before:], default=0.0)
        compiler.close()
        result[backend] = summary(tally)
        print(
            backend,
            *(f"{name:>20} {value}" for name, value in result[backend].items()),
            sep="\n",
            flush=True,
        )
    emit("masks", vars(args), result, save=not args.no_save)


if __name__ == "__main__":
    main()
