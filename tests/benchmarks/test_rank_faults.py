"""What the benchmark of ranks with faults counts, and its small model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.models.small import save_small
from benchmarks.rank_faults import Found
from specguide import LLM, Guide, SamplingParams


def test_what_pairs_of_ranks_saw_is_added() -> None:
    found = Found(iterations=3, faults=Counter(slowed=1), told_s=[0.5])
    found.add(Found(iterations=4, faults={"slowed": 2, "killed": 1}, told_s=[6.0], wrong=1))
    assert found == Found(
        iterations=7, faults=Counter(slowed=3, killed=1), told_s=[0.5, 6.0], wrong=1
    )
    assert found.is_wrong and not Found(iterations=7, needless=1, unstarted=1).is_wrong


def test_a_pair_that_ends_without_a_result_is_wrong() -> None:
    assert Found(ended=1).is_wrong


def test_the_small_model_speaks(tmp_path: Path) -> None:
    save_small(tmp_path)
    llm = LLM(tmp_path, dtype="float32", device="cpu", max_model_len=64)
    params = SamplingParams(max_tokens=8, guide=Guide(regex="[a-z]{3}"))
    (output,) = llm.generate("7 of the bridges", params)
    assert output.error is None and output.text.isalpha() and len(output.text) == 3
    assert max(output.token_ids) < llm._engine.vocab_size == 512
    llm.close()
