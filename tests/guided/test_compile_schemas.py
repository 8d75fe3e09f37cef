"""Public schemas through the compiler: whichever backend takes one, nothing invalid gets by."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specguide.bench.instances import BYTES, draw, takes_any, takes_in_some_order
from specguide.bench.validation import violation
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
# What is left of a schema where the core says less than it does.
NARROWED = {
    "format",
    "contains",
    "minContains",
    "maxContains",
    "ecmascript-regex",
    "bignum",
    "float-overflow",
}


def records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _takes(grammar: CompiledGrammar, instance: Any, schema: Any) -> bool:
    # Where no order is taken, finding that out is what takes long.
    return takes_any(grammar, instance, schema) or takes_in_some_order(
        grammar, instance, schema, most_texts=3000
    )


@pytest.mark.parametrize("backend", ["auto", "xgrammar"])
def test_conformance_suite(new_compiler, backend, data_dir):
    compiler = new_compiler(BYTES, backend=backend)
    counts: Counter[str] = Counter()
    for test in records(data_dir / "json_schema_test_suite.jsonl"):
        schema = test["schema"]
        if test["suite"] == "optional" and test["keyword"] == "content":
            continue  # an annotation, as later drafts say outright
        if isinstance(schema, dict) and test["draft"] == "draft7":
            schema = {"$schema": DRAFT_7, **schema}
        try:
            grammar = compiler.compile(Guide(json_schema=schema))
        except InvalidGuide:
            counts["refused"] += 1
            continue
        taken = takes_any(grammar, test["data"], schema)
        assert test["valid"] or not taken, (test["id"], test["test"], grammar.backend)
        narrowed = test["suite"] == "optional/format" or test["keyword"] in NARROWED
        counts["taken" if taken else "lost" if test["valid"] and not narrowed else "other"] += 1
    assert counts["taken"] >= {"auto": 825, "xgrammar": 240}[backend], counts
    assert backend != "auto" or (counts["lost"] <= 20 and counts["refused"] <= 250), counts


@pytest.mark.parametrize(("backend", "every", "draws"), [("auto", 16, 2), ("xgrammar", 18, 2)])
def test_real_world_schemas(new_compiler, backend, every, draws, data_dir):
    compiler = new_compiler(BYTES, backend=backend, compile_timeout_s=5.0)
    counts: Counter[str] = Counter()
    rng = random.Random(7)
    for record in list(records(data_dir / "jsonschemabench.jsonl"))[::every]:
        try:
            grammar = compiler.compile(Guide(json_schema=record["schema"]))
        except InvalidGuide:
            counts["refused"] += 1
            continue
        counts["served"] += 1
        for test in record["tests"]:
            taken = _takes(grammar, test["data"], record["schema"])
            assert test["valid"] or not taken, (record["id"], grammar.backend, test.get("fails"))
            counts[
                "valid taken" if taken else "valid lost" if test["valid"] else "invalid refused"
            ] += 1
        for _ in range(draws):
            try:
                text = draw(grammar.matcher(), rng, max_len=150)
            except RuntimeError as error:
                assert "Current row" in str(
                    error
                )  # llguidance keeps only so many alternatives open
                counts["given up"] += 1
                continue
            assert text is None or violation(record["schema"], text) is None, (
                record["id"],
                grammar.backend,
                text,
            )
    assert counts["served"] > {"auto": 0.92, "xgrammar": 0.5}[backend] * (
        counts["served"] + counts["refused"]
    )
    assert counts["valid lost"] < {"auto": 0.01, "xgrammar": 0.1}[backend] * counts["valid taken"]
    assert counts["given up"] <= 3, counts
