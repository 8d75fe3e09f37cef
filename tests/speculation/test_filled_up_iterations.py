"""Iterations that are filled up to a few sizes, as a GPU runs them, give what those of exact sizes
give: here on a CPU, where an index that is out of range is told."""

from __future__ import annotations

from collections.abc import Iterator

import adaptive_engines
import proposals
import pytest
import staggered
import tiny_engine
from filled_up import filled_up
from misfits import Scripted, with_misfit
from proposals import plain_outputs
from tiny_engine import generate, told

from specguide import LLM, GuideConfig, SamplingParams, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.speculation import sized_iterations


@pytest.fixture(name="filled_up")
def all_filled_up() -> Iterator[None]:
    """Engines made from here on fill up their iterations."""
    with filled_up():
        yield


@pytest.fixture
def exact(folders):
    """Prompts, parameters, and what is output without drafts in iterations of exact sizes."""
    return plain_outputs(folders, "auto", 0)


def check(llm: LLM, exact) -> None:
    prompts, params, expected = exact
    assert llm._engine._executor.step._sized.runner is not None
    assert told(generate(llm, prompts, params)) == expected


@pytest.mark.parametrize("method", [None, *proposals.METHODS])
def test_proposals(folders, exact, filled_up, method):
    check(proposals.make(folders, method, max_batch_size=8), exact)


@pytest.mark.parametrize("method", adaptive_engines.SPECS)
def test_levels_in_any_order(folders, exact, filled_up, any_level, method):
    check(adaptive_engines.make(folders, method, max_batch_size=8), exact)


@pytest.mark.parametrize("tree", [None, DynamicTree(4, 4, 20)], ids=["chain", "tree"])
@pytest.mark.parametrize("method", ["eagle3", "mtp", "draft_model"])
def test_drafters(folders, models, exact, filled_up, method, tree):
    shape = {"num_draft_tokens": 3} if tree is None else {"tree": tree}
    spec = SpecConfig(method, models[method], **shape)
    check(LLM(folders[0], spec=spec, max_batch_size=8), exact)


@pytest.mark.parametrize("method", [None, *proposals.METHODS])
def test_slots_of_more_pages_than_travel_with_a_prompt(
    folders, exact, filled_up, monkeypatch, method
):
    monkeypatch.setattr(sized_iterations, "ENTERING_PAGES", 1)
    check(proposals.make(folders, method, max_batch_size=8, page_size=4), exact)


def test_who_is_held_before_the_last_tokens_does_not_run_along(folders, filled_up):
    """The iterations of others are in its slot, too, and have no rows for it."""
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=150, ignore_eos=True)] * 2
    llm = tiny_engine.make(folders, spec=False, guide=GuideConfig(deadline_us=2000), lag=2)
    _, awake = with_misfit(llm, Scripted("nap", 1000), prompts, params)
    for num_fills in [37, 38, 39] * 4:
        _, asleep = with_misfit(llm, Scripted("nap", num_fills), prompts, params)
        assert asleep.metrics.num_held > 0 and asleep.output_ids == awake.output_ids
    llm.close()


def beside(mode: str) -> list[object]:
    """Outputs of prompts that are computed beside iterations."""
    engine, watch = staggered.engine_of(staggered.SPECS[mode], max_batch_size=8)
    found = [staggered.told(one) for one in staggered.run(engine, staggered.asked(8))]
    assert watch.chunks
    engine.close()
    return found


@pytest.fixture(scope="module")
def exact_beside():
    """Outputs without drafts, in iterations of exact sizes."""
    return beside("plain")


@pytest.mark.parametrize("mode", staggered.SPECS)
def test_prompts_beside(exact_beside, filled_up, mode):
    assert beside(mode) == exact_beside
