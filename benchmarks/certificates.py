"""Certificates of the schemas of three public sets: proven errors of their grammars' masks. There
must be none.

    SPECGUIDE_DATA=… python -m benchmarks.certificates [--limit 300] [--full] [--masks 40]

Takes JSONSchemaBench, JSON-mode-eval and the tools of BFCL: a random sample of each set, or all
schemas with --full. Each schema is checked as by `specguide grammars certify`. Prints each proven
error, writes docs/certificates.md, prints one JSON line; exits with 1 if an error was proven.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

from benchmarks.common import RESULTS_DIR, argument_parser, data_path, emit, read_jsonl
from specguide.bench.certificate.certify import Certificate, certify
from specguide.bench.certificate.report import page, totals
from specguide.bench.config import CertifyConfig
from specguide.bench.conformance import BackendCompiler
from specguide.bench.conformance_cases import Case, grouped
from specguide.bench.provenance import command, commit, hardware
from specguide.errors import SpecguideError

PAGE = RESULTS_DIR.parent.parent / "docs" / "certificates.md"


def load_cases() -> Iterator[Case]:
    """All schemas of the three sets, with the valid instances that come with them."""
    for record in read_jsonl(data_path("jsonschemabench.jsonl")):
        instances = [(test["data"], True) for test in record["tests"] if test["valid"]]
        yield Case(record["id"], "JSONSchemaBench", record["schema"], instances)
    for record in read_jsonl(data_path("json_mode_eval.jsonl")):
        yield Case(record["id"], "JSON-mode-eval", record["schema"], [(record["completion"], True)])
    for record in read_jsonl(data_path("bfcl.jsonl")):
        for tool in record["tools"]:
            function = tool["function"]
            known = [(value, True) for value in _arguments(record["answer"], function["name"])]
            yield Case(record["id"], "BFCL", function["parameters"], known)


def _arguments(calls: list[dict[str, Any]] | None, name: str) -> Iterator[dict[str, Any]]:
    """The arguments of each call of a tool, each with the first value that is accepted."""
    for call in calls or ():
        if name in call:
            yield {key: some[0] for key, some in call[name].items() if some and some[0] != ""}


def chosen(cases: list[Case], limit: int | None, seed: int) -> dict[str, list[Case]]:
    """The cases of each set, at most `limit` of them at random. None: all"""
    sets: dict[str, list[Case]] = {}
    for case in cases:
        sets.setdefault(case.data_set, []).append(case)
    rng = random.Random(seed)
    return {
        name: found if limit is None or len(found) <= limit else rng.sample(found, limit)
        for name, found in sets.items()
    }


def measured(compiler: BackendCompiler, cases: list[Case], config: CertifyConfig) -> dict[str, Any]:
    """Totals of the schemas of a set that are served, and the number of those that are not."""
    found: list[Certificate] = []
    refused = 0
    faults = []
    for case in tqdm(cases, desc=cases[0].data_set, unit="schema", disable=None):
        try:
            grammar = compiler.compile(case.schema)
        except (SpecguideError, RuntimeError):
            refused += 1
            continue
        known = [value for value, _ in case.instances]
        one = certify(grammar, case.schema, known, config)
        faults += [f"{case.name}, {fault}" for fault in one.faults]
        for fault in one.faults:
            print(f"{case.name}, {fault[:500]}", flush=True)
        found.append(one)
    seconds = round(sum(one.seconds for one in found), 1)
    return {**totals(found), "refused": refused, "seconds": seconds, "faults": faults}


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--limit", type=int, default=300, help="schemas of each set")
    parser.add_argument("--full", action="store_true", help="all schemas")
    parser.add_argument("--masks", type=int, default=40, help="of each schema, at most")
    parser.add_argument("--bits", type=int, default=4, help="put to the validator, of each mask")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of Python, about formats in schemas
    config = CertifyConfig(
        walks=2, masks=args.masks, bits=args.bits, changes=10, seconds=2, seed=args.seed
    )
    compiler, start = BackendCompiler("auto"), time.perf_counter()
    sets = chosen(grouped(load_cases()), None if args.full else args.limit, args.seed)
    result = {name: measured(compiler, cases, config) for name, cases in sets.items()}
    compiler.close()
    how = f"`{command()}` at {commit()}, {hardware()['cpu']}, {time.perf_counter() - start:.0f} s."
    text = page(result, how)
    print(text)
    if not args.no_save:
        PAGE.write_text(text)
    emit("certificates", vars(args), result, save=not args.no_save)
    sys.exit(any(one["schemas_wrong"] for one in result.values()))


if __name__ == "__main__":
    main()
