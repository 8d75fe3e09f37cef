"""A fixed sample of real-world schemas through the shipped model; `benchmarks/schemas.py` runs as
many as you like."""

from __future__ import annotations

from collections import Counter

from benchmarks.common import read_jsonl
from benchmarks.schemas import answers, verdict
from specguide import LLM, GuideConfig


def test_what_finished_validates_and_what_is_refused_says_why(data_dir):
    records = list(read_jsonl(data_dir / "jsonschemabench.jsonl"))[::60]
    llm = LLM(guide=GuideConfig(compile_timeout_s=10))
    outputs = answers(llm, [record["schema"] for record in records], max_tokens=128)
    results = [
        verdict(record["schema"], output) for record, output in zip(records, outputs, strict=True)
    ]
    counts = Counter(result for result, _ in results)
    assert counts["invalid"] == 0 and counts["failed"] == 0, results
    assert counts["valid"] >= len(records) // 2, counts
    assert all(reason for result, reason in results if result == "refused")
    llm._engine.check_integrity()
    llm.close()
