"""JSON Schema conformance: which schemas each backend serves, and whether what it serves is right.

    SPECGUIDE_DATA=… python -m benchmarks.conformance [--backends auto llguidance xgrammar] [--limit 100]

Takes JSONSchemaBench, the JSON-Schema-Test-Suite and JSON-mode-eval. Compiles every schema, feeds its valid and invalid
instances to the grammar (as they are, in three whitespace styles, then in any order of their keys), and draws random
texts from the grammar, which must all be instances by `jsonschema`, formats included. "bare-…" gives a library the
schema as it is, for comparison. Keeps one record a schema under --records, by commit, so that a run that was broken off
goes on. Prints a table, writes benchmarks/results/conformance.md (over bytes), prints one JSON line; exits with 1 when
`auto` let anything by.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common import RESULTS_DIR, commit, data_path, emit, read_jsonl
from benchmarks.conformance_report import markdown, num_let_by, summary, table
from benchmarks.instances import BYTES, draw, takes_any, takes_in_some_order
from benchmarks.real_text import load_vocabulary
from specguide.bench.validation import violation
from specguide.config import GuideConfig
from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar, create_backend
from specguide.guided.compile import GrammarCompiler
from specguide.tokenizer.vocabulary import Vocabulary

BACKENDS = ("auto", "llguidance", "xgrammar", "bare-llguidance", "bare-xgrammar")
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@dataclass
class Case:
    """A schema of a data set with its instances: (value, whether it is valid)."""

    name: str
    data_set: str
    schema: Any
    instances: list[tuple[Any, bool]]


def load_cases() -> Iterator[Case]:
    """All schemas of the three sets, with the instances that come with them."""
    for record in read_jsonl(data_path("jsonschemabench.jsonl")):
        yield Case(record["id"], "JSONSchemaBench", record["schema"],
                   [(test["data"], test["valid"]) for test in record["tests"]])
    for record in read_jsonl(data_path("json_mode_eval.jsonl")):
        yield Case(record["id"], "JSON-mode-eval", record["schema"], [(record["completion"], True)])
    groups: dict[str, Case] = {}
    for test in read_jsonl(data_path("json_schema_test_suite.jsonl")):
        if test["suite"] == "optional" and test["keyword"] == "content":
            continue  # an annotation, as later drafts say outright
        schema = test["schema"]
        if isinstance(schema, dict) and test["draft"] == "draft7":
            schema = {"$schema": _DRAFT_7, **schema}
        key = json.dumps([test["suite"] == "optional/format", schema])
        name = f"{test['keyword']}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        groups.setdefault(key, Case(name, "JSON-Schema-Test-Suite", schema, []))
        groups[key].instances.append((test["data"], test["valid"]))
    yield from groups.values()


class Compiler:
    """Schemas compiled by one of BACKENDS over one vocabulary."""

    def __init__(self, backend: str, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._bare = backend.startswith("bare-")
        name = backend.removeprefix("bare-")
        self.config = GuideConfig(backend=name)
        self._library = create_backend(name, vocabulary) if self._bare else None
        self._compiler = GrammarCompiler(vocabulary, self.config)
        if not self._bare:
            self._compiler.compile(Guide(json_object=True))  # binds the backend to the vocabulary

    def compile(self, schema: Any) -> CompiledGrammar:
        """Raises SpecguideError where the backend refuses the schema, RuntimeError where a bare library fails."""
        guide = Guide(json_schema=schema)
        return self._compiler.compile(guide) if self._library is None else self._library.compile(guide, self.config)

    def close(self) -> None:
        """Lets its threads go."""
        self._compiler.close()


def measure(compiler: Compiler, case: Case, draws: int) -> dict[str, Any]:
    """One record: who compiled the schema or why not, and counts over its instances and random texts."""
    record: dict[str, Any] = {"name": case.name, "set": case.data_set}
    start = time.perf_counter()
    try:
        grammar = compiler.compile(case.schema)
    except (SpecguideError, RuntimeError) as error:
        keyword = getattr(error, "keyword", None)
        return {**record, "refused": keyword or type(error).__name__, "why": str(error)[:300]}
    record.update(compiled_by=grammar.backend, seconds=time.perf_counter() - start, faults=[])
    for instance, valid in case.instances if compiler.vocabulary is BYTES else ():
        taken = "taken" if takes_any(grammar, instance, case.schema) else (
            "reordered" if takes_in_some_order(grammar, instance, case.schema) else "refused")
        _count(record, f"{'valid' if valid else 'invalid'}_{taken}")
        if not valid and taken != "refused":
            record["faults"].append(f"takes {json.dumps(instance)[:150]}")
    rng = random.Random(case.name)
    for _ in range(draws):
        _check_draw(grammar, case, rng, record, compiler.vocabulary)
    return record


def _check_draw(grammar: CompiledGrammar, case: Case, rng: random.Random, record: dict[str, Any],
                vocabulary: Vocabulary) -> None:
    try:
        text = draw(grammar.matcher(), rng, vocabulary=vocabulary)
    except RuntimeError as error:
        record["faults"].append(str(error).splitlines()[0][:150])
        _count(record, "texts_dead_end")
        return
    try:
        fault = None if text is None else violation(case.schema, text)
    except Exception:  # whatever stops jsonschema: a pattern that Python cannot read, a reference to the network
        _count(record, "texts_unjudged")
        return
    _count(record, "texts_cut" if text is None else "texts_valid" if fault is None else "texts_invalid")
    if fault is not None:
        record["faults"].append(f"{fault[:100]}: {text!r}"[:250])


def _count(record: dict[str, Any], name: str) -> None:
    record[name] = record.get(name, 0) + 1


def records_of(backend: str, vocabulary: Vocabulary, cases: list[Case], draws: int, path: Path) -> list[dict[str, Any]]:
    """The records of all cases: those that `path` holds, and the missing ones, which are added to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {record["name"]: record for record in read_jsonl(path)} if path.exists() else {}
    missing = [case for case in cases if case.name not in known]
    if missing:
        compiler, at = Compiler(backend, vocabulary), commit()
        with path.open("a", encoding="utf-8") as file:
            for case in tqdm(missing, desc=backend, unit="schema", disable=None):
                known[case.name] = {**measure(compiler, case, draws), "commit": at}
                file.write(json.dumps(known[case.name], ensure_ascii=False) + "\n")
                file.flush()
        compiler.close()
    return [known[case.name] for case in cases]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=["auto", "llguidance", "xgrammar"])
    parser.add_argument("--limit", type=int, help="only so many schemas, a sample of all sets")
    parser.add_argument("--draws", type=int, default=4, help="random texts a schema")
    parser.add_argument("--vocabulary", choices=("bytes", "llama3"), default="bytes",
                        help="llama3: 128,256 tokens, without the instances")
    parser.add_argument("--records", type=Path, default=Path("build/conformance"))
    args = parser.parse_args()
    cases = list(load_cases())
    random.Random(0).shuffle(cases)
    cases = cases[:args.limit]
    over_bytes = args.vocabulary == "bytes"
    vocabulary = BYTES if over_bytes else load_vocabulary()[0]
    folder = args.records / commit() / f"{args.vocabulary}-{args.draws}"
    found = {backend: records_of(backend, vocabulary, cases, args.draws,
                                 folder / f"{backend}.jsonl") for backend in args.backends}
    result = {backend: summary(records) for backend, records in found.items()}
    print(table(result))
    if over_bytes and args.limit is None:
        (RESULTS_DIR / "conformance.md").write_text(markdown(result, found))
    emit("conformance" if over_bytes else f"conformance_{args.vocabulary}", result=result, save=args.limit is None,
         config={name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()})
    for record in found.get("auto", ()):
        if record.get("faults"):
            print(f"{record['name']}: {record['faults'][0]}", file=sys.stderr)
    raise SystemExit(1 if num_let_by(result.get("auto", {})) else 0)


if __name__ == "__main__":
    main()
