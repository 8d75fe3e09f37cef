"""The table of a service: its loads ask for prompts as long as was said."""

from __future__ import annotations

from argparse import Namespace
from types import SimpleNamespace

import pytest

from benchmarks import serve_table
from specguide.bench.config import RequestSizes, ServerAddress
from specguide.bench.serve import Target
from specguide.bench.sized import SizedWorkload, WordTokens


def test_prompts_are_as_long_as_the_server_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[SizedWorkload]()
    words = {True: WordTokens(each=4.0, around=60.0)}
    monkeypatch.setattr(
        serve_table,
        "fitted",
        lambda target, sizes, seed: SizedWorkload(sizes, target.model, seed, words),
    )
    monkeypatch.setattr(
        serve_table,
        "measure",
        lambda target, workload, load: asked.append(workload) or SimpleNamespace(figures={}),
    )
    sizes = RequestSizes(prompt_len=100, output_len=64, guided_share=1.0)
    args = Namespace(concurrency="1,2", rounds=1, processes=1)
    serve_table.measured(Target(ServerAddress(), "m"), sizes, args, 1000)
    assert [one.num_words(is_guided=True) for one in asked] == [10] * 4
    assert [one.sizes.output_len for one in asked] == [24, 64] * 2
    assert len({one.seed for one in asked}) == 4
