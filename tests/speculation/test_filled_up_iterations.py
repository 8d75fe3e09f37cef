"""Iterations that are filled up to a few sizes, as a GPU runs them, give what those of exact sizes
give: here on a CPU, where an index that is out of range is told."""

from __future__ import annotations

import adaptive_engines
import proposals
import pytest
import staggered
from proposals import generate, plain_outputs

from specguide import LLM, SpecConfig
from specguide.draft_tree import DynamicTree
from specguide.speculation import sized_iterations
from specguide.speculation.graphs import EagerIterations


@pytest.fixture(autouse=True)
def filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_iterations, "runner_for", lambda grammar, options: EagerIterations())


def check(llm: LLM, folders) -> None:
    prompts, params, expected = plain_outputs(folders, "auto", 0)
    assert proposals.told(generate(llm, prompts, params)) == expected


@pytest.mark.parametrize("method", [None, *proposals.METHODS])
def test_proposals(folders, method):
    check(proposals.make(folders, method, max_batch_size=8), folders)


@pytest.mark.parametrize("method", adaptive_engines.SPECS)
def test_levels_in_any_order(folders, any_level, method):
    check(adaptive_engines.make(folders, method, max_batch_size=8), folders)


@pytest.mark.parametrize("tree", [None, DynamicTree(4, 4, 20)], ids=["chain", "tree"])
@pytest.mark.parametrize("method", ["eagle3", "mtp", "draft_model"])
def test_drafters(folders, models, method, tree):
    shape = {"num_draft_tokens": 3} if tree is None else {"tree": tree}
    spec = SpecConfig(method, models[method], **shape)
    check(LLM(folders[0], spec=spec, max_batch_size=8), folders)


@pytest.mark.parametrize("mode", staggered.SPECS)
def test_prompts_beside(mode):
    outputs = []
    for options in ({}, {"mixed_iterations": False}):
        engine, watch = staggered.engine_of(staggered.SPECS[mode], max_batch_size=8, **options)
        outputs.append([staggered.told(one) for one in staggered.run(engine, staggered.asked(8))])
        assert bool(watch.chunks) == options.get("mixed_iterations", True)
        engine.close()
    assert outputs[0] == outputs[1]
