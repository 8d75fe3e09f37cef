"""JSON Schema conformance of every backend on three public sets, measured as `specguide bench
conformance` does it for your own schemas.

    SPECGUIDE_DATA=… python -m benchmarks.conformance [--backends auto llguidance xgrammar] [--limit
    100]

`--key-order any` tries each instance in random orders of its keys; it counts as taken if all of
them are.

Takes JSONSchemaBench, the JSON-Schema-Test-Suite and JSON-mode-eval. "bare-…" gives a library the
unchanged schema, for comparison. Keeps one record for each schema under --records, by commit, so
that an interrupted run can be continued. Prints a table, writes benchmarks/results/conformance.md
(over bytes), prints one JSON line; exits with 1 if `auto` accepted anything invalid.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS_DIR, argument_parser, data_path, emit, read_jsonl
from benchmarks.guides.real_text import load_vocabulary
from specguide.bench.conformance import BackendCompiler, SchemaCompiler, Trial
from specguide.bench.conformance_cases import Case, with_draft
from specguide.bench.conformance_report import markdown, num_let_by, summary, table
from specguide.bench.instances import BYTES
from specguide.bench.provenance import command, commit, hardware
from specguide.config import GuideConfig
from specguide.guide import KEY_ORDERS, Guide
from specguide.guided.backends import (
    CompiledGrammar,
    backend_choices,
    backend_names,
    create_backend,
)
from specguide.tokenizer.vocabulary import Vocabulary

ORDERS = 2
BACKENDS = (*backend_choices(), *(f"bare-{name}" for name in backend_names()))


def load_cases() -> Iterator[Case]:
    """All schemas of the three sets, with the instances that come with them."""
    for record in read_jsonl(data_path("jsonschemabench.jsonl")):
        yield Case(
            record["id"],
            "JSONSchemaBench",
            record["schema"],
            [(test["data"], test["valid"]) for test in record["tests"]],
        )
    for record in read_jsonl(data_path("json_mode_eval.jsonl")):
        yield Case(record["id"], "JSON-mode-eval", record["schema"], [(record["completion"], True)])
    groups: dict[str, Case] = {}
    for test in read_jsonl(data_path("json_schema_test_suite.jsonl")):
        if test["suite"] == "optional" and test["keyword"] == "content":
            continue  # an annotation, as later drafts say outright
        schema = with_draft(test["schema"], test["draft"])
        key = json.dumps([test["suite"] == "optional/format", schema])
        name = f"{test['keyword']}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        groups.setdefault(key, Case(name, "JSON-Schema-Test-Suite", schema, []))
        groups[key].instances.append((test["data"], test["valid"]))
    yield from groups.values()


class BareCompiler:
    """A library that gets each schema unchanged."""

    def __init__(self, library: str, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._config = GuideConfig(backend=library)
        self._library = create_backend(library, vocabulary)

    def compile(self, schema: Any) -> CompiledGrammar:
        """Raises RuntimeError where the library fails."""
        return self._library.compile(Guide(json_schema=schema), self._config)

    def close(self) -> None:
        """Do nothing: it has no threads."""


def compiler(backend: str, vocabulary: Vocabulary, key_order: str) -> SchemaCompiler:
    """The compiler of one of BACKENDS."""
    library = backend.removeprefix("bare-")
    return (
        BackendCompiler(backend, vocabulary, key_order)
        if library == backend
        else BareCompiler(library, vocabulary)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argument_parser(__doc__)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(backend_choices()))
    parser.add_argument("--limit", type=int, help="only so many schemas, a sample of all sets")
    parser.add_argument("--draws", type=int, default=4, help="random texts a schema")
    parser.add_argument(
        "--vocabulary",
        choices=("bytes", "llama3"),
        default="bytes",
        help="llama3: 128,256 tokens, without the instances",
    )
    parser.add_argument("--key-order", choices=KEY_ORDERS, default="schema")
    parser.add_argument("--records", type=Path, default=Path("build/conformance"))
    return parser


def main() -> None:
    """Run the benchmark."""
    args = _parser().parse_args()
    cases = list(load_cases())
    random.Random(0).shuffle(cases)
    cases = cases[: args.limit]
    over_bytes = args.vocabulary == "bytes"
    vocabulary = BYTES if over_bytes else load_vocabulary()[0]
    made_by = commit() or "unknown"
    is_fixed = args.key_order == "schema"
    folder = args.records / made_by / args.vocabulary / args.key_order
    found = {
        backend: Trial(
            partial(compiler, backend, vocabulary, args.key_order),
            args.draws,
            made_by,
            folder / f"{backend}.jsonl",
            0 if is_fixed else ORDERS,
        ).records(cases)
        for backend in args.backends
    }
    result = {backend: summary(records) for backend, records in found.items()}
    print(table(result))
    if over_bytes and is_fixed and args.limit is None:
        how = f"`{command()}`, {hardware()['cpu']}, over a vocabulary of bytes."
        (RESULTS_DIR / "conformance.md").write_text(markdown(result, found, how))
    emit(
        "_".join(
            [
                "conformance",
                *([] if over_bytes else [args.vocabulary]),
                *([] if is_fixed else ["any_order"]),
            ]
        ),
        result=result,
        save=args.limit is None,
        config={
            name: str(value) if isinstance(value, Path) else value
            for name, value in vars(args).items()
        },
    )
    for record in found.get("auto", ()):
        if record.get("faults"):
            print(f"{record['name']}: {record['faults'][0]}", file=sys.stderr)
    raise SystemExit(1 if num_let_by(result.get("auto", {})) else 0)


if __name__ == "__main__":
    main()
