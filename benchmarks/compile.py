"""Real-world JSON Schemas through the grammar compiler: who serves them, how fast, and whether it lets anything by.

    SPECGUIDE_DATA=… python -m benchmarks.compile [--backend auto] [--limit 1500] [--draws 20] [--vocabulary llama3]

Compiles every schema of JSONSchemaBench, feeds its valid and invalid instances to the grammar in several whitespace
styles and key orders, and draws random texts from the grammar, which must all be instances. Over the vocabulary of
128,256 tokens it only compiles. Prints a table, every reason for a refusal, then one JSON line.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.common import data_path, emit, read_jsonl
from benchmarks.instances import BYTES, draw, takes_any
from benchmarks.real_text import load_vocabulary
from specguide.bench.validation import violation
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler


@dataclass
class Tally:
    """Counts over all schemas. `seconds`: of the compiles that gave a grammar; `faults`: what was let by."""

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def measure(compiler: GrammarCompiler, record: dict[str, Any], draws: int, rng: random.Random, tally: Tally) -> None:
    """Compiles one schema and, over bytes, checks its instances and some random texts."""
    start = time.perf_counter()
    try:
        grammar = compiler.compile(Guide(json_schema=record["schema"]))
    except SpecguideError as error:
        tally.counts[f"refused ({type(error).__name__})"] += 1
        tally.refusals[reason(error)] += 1
        return
    tally.seconds.append(time.perf_counter() - start)
    tally.counts[f"compiled by {grammar.backend}"] += 1
    if draws < 0:
        return
    for test in record["tests"]:
        taken = takes_any(grammar, test["data"], record["schema"])
        tally.counts[f"{'valid' if test['valid'] else 'invalid'} instances {'taken' if taken else 'refused'}"] += 1
        if taken and not test["valid"]:
            tally.faults.append(f"{record['id']}: takes an invalid instance ({test.get('fails')})")
    for _ in range(draws):
        check_draw(grammar, record, rng, tally)


def check_draw(grammar: CompiledGrammar, record: dict[str, Any], rng: random.Random, tally: Tally) -> None:
    """Draws one text and validates it."""
    try:
        text = draw(grammar.matcher(), rng)
    except RuntimeError as error:
        tally.counts["random texts with a dead end"] += 1
        tally.faults.append(f"{record['id']}: {str(error).splitlines()[0][:200]}")
        return
    fault = violation(record["schema"], text) if text is not None else None
    kind = "cut" if text is None else "valid" if fault is None else "INVALID"
    tally.counts[f"random texts {kind}"] += 1
    if fault is not None:
        tally.faults.append(f"{record['id']}: {fault[:120]}: {text!r}"[:300])


def reason(error: SpecguideError) -> str:
    """What an error is about, without what is particular to one schema."""
    text = re.sub(r"( at /\S*| at position \d+|'[^']*'|/[^/ ]*/|\"[^\"]*\"|#/\S+)", "", str(error))
    return f"{getattr(error, 'keyword', None) or type(error).__name__}: {text[:140]}"


def main() -> None:
    """Run the benchmark; exits with 1 when something was let by."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--limit", type=int, default=1500)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--vocabulary", choices=("bytes", "llama3"), default="bytes")
    args = parser.parse_args()
    records = list(read_jsonl(data_path("jsonschemabench.jsonl")))
    random.Random(0).shuffle(records)
    over_bytes = args.vocabulary == "bytes"
    compiler = GrammarCompiler(BYTES if over_bytes else load_vocabulary()[0], GuideConfig(backend=args.backend))
    compiler.compile(Guide(json_object=True))  # binds the backend to the vocabulary
    tally, rng = Tally(), random.Random(1)
    for record in records[:args.limit]:
        measure(compiler, record, args.draws if over_bytes else -1, rng, tally)
    compiler.close()
    print("\n".join(f"{count:6} {reason}" for reason, count in tally.refusals.most_common()), "\n")
    print("\n".join(tally.faults))
    print("\n".join(f"{name:32} {count:6}" for name, count in sorted(tally.counts.items())))
    times = {f"compile_p{q}_ms": round(1e3 * float(np.percentile(tally.seconds, q)), 2) for q in (50, 90, 99, 100)}
    print(times)
    emit(f"compile_{args.backend}_{args.vocabulary}", config=vars(args), result={**tally.counts, **times})
    raise SystemExit(1 if any("INVALID" in name or name == "invalid instances taken" for name in tally.counts) else 0)


if __name__ == "__main__":
    main()
