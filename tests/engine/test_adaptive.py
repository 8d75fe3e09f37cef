"""How much an iteration drafts, where that is chosen: no token depends on it, and what gains most
is what runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from adaptive_engines import SPECS, make
from misfits import HOLDING, check_a_sleeping_matcher
from mtp_heads import save_mimo
from proposals import plain_outputs
from random_requests import cases
from speculation_choices import check_choice, fitting
from tiny_engine import generate, told

from benchmarks.adaptive import Task, load_models, measure
from specguide import LLM, GuideConfig, SpecConfig
from specguide.config import CacheConfig, EngineConfig
from specguide.drafts.layout import NO_DRAFTS, DraftLayout
from specguide.drafts.tree import DraftTree, DynamicTree
from specguide.engine.setup.facts import resolved
from specguide.errors import InvalidParams


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", SPECS)
def test_levels_in_any_order_change_no_token(folders, any_level, method, temperature):
    for backend, lag in (("auto", 2), ("xgrammar", 1 if temperature else 0)):
        prompts, all_params, expected = plain_outputs(folders, backend, temperature)
        llm = make(folders, method, max_batch_size=8, lag=lag, guide=GuideConfig(backend=backend))
        outs = generate(llm, prompts, all_params)
        assert told(outs) == expected
        assert any(out.metrics.acceptance_length > 1.1 for out in outs)


@pytest.mark.parametrize("method", ["eagle3", "eagle3 and grammar", "suffix and grammar", "tree"])
def test_requests_choose_beside(folders, any_level, method):
    layout = SpecConfig(**SPECS[method]).layout
    prompts, all_params, expected = plain_outputs(folders, "auto", 0.8)
    chosen = list(zip(all_params, cycle(fitting(layout))))
    outs = generate(
        make(folders, method, max_batch_size=8, lag=1),
        prompts,
        [replace(params, speculation=choice, return_drafts=True) for params, choice in chosen],
    )
    assert told(outs) == expected
    for out, (_, choice) in zip(outs, chosen, strict=True):
        check_choice(out, choice, layout)


def test_levels_of_a_layout():
    nothing = NO_DRAFTS
    assert nothing.levels == (nothing,)
    assert DraftLayout.chain(num_model=3).levels == (nothing, DraftLayout.chain(num_model=3))
    assert DraftLayout.chain(num_forced=8).levels == (nothing, DraftLayout.chain(num_forced=8))
    assert DraftLayout.chain(3, 0, 8).levels == (
        nothing,
        DraftLayout.chain(3),
        DraftLayout.chain(3, 0, 8),
    )
    assert DraftLayout.chain(0, 4, 8).levels == (
        nothing,
        DraftLayout.chain(0, 4),
        DraftLayout.chain(0, 4, 8),
    )
    trees = SpecConfig(tree=DynamicTree()).layout
    assert [(level.num_drafts, level.num_nodes) for level in trees.levels] == [
        (0, 1),
        (3, 4),
        (4, 16),
        (6, 60),
    ]
    assert trees.first_level == trees.levels[1] and trees.levels[-1] == trees
    assert [len(trees.levels_for(num_slots)) for num_slots in (1, 8, 9, 32, 33, 128)] == [
        4,
        4,
        3,
        3,
        2,
        2,
    ]
    assert (
        len(DraftLayout.chain(3, 0, 8).levels_for(42)) == 3
        and len(DraftLayout.chain(3, 0, 8).levels_for(43)) == 2
    )
    assert len(SpecConfig(tree=DraftTree.chain(3)).layout.levels) == 2


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_the_choice_itself_changes_no_token(folders, lag):
    prompts, all_params = cases(5, 12)
    plain = LLM(folders[0], spec=None, max_batch_size=6)
    expected = told(generate(plain, prompts, all_params))
    for method in ("eagle3", "eagle3 and grammar", "suffix and grammar", "tree"):
        llm = make(folders, method, max_batch_size=6, lag=lag)
        assert told(generate(llm, prompts, all_params)) == expected


@pytest.mark.parametrize("method", ["eagle3 and grammar", "tree"])
def test_a_sleeping_matcher_is_held_at_any_level(folders, any_level, method):
    llm = make(folders, method, guide=HOLDING)
    check_a_sleeping_matcher(llm, prompts=("ab", "ba"), times=3)


def test_few_pages_at_any_level(folders, any_level):
    prompts, all_params = cases(6, 14)
    prompts = ["a common beginning " * 3 + prompt for prompt in prompts]
    plain = generate(LLM(folders[0], spec=None, max_batch_size=8), prompts, all_params)
    llm = make(folders, "tree", max_batch_size=8, cache=CacheConfig(page_size=4, num_pages=150))
    assert told(llm.generate(prompts, all_params)) == told(plain)
    assert told(generate(llm, prompts, all_params)) == told(plain)


def test_logits_processors_beside_trees(folders):
    """Those that turn the choice around: what a draft head says of it is wrong."""
    prompts, without = cases(3, 12)
    all_params = [
        replace(params, logits_processors=[lambda ids, logits: -logits])
        if number % 3 == 0
        else params
        for number, params in enumerate(without)
    ]
    outs = told(generate(make(folders, "tree", max_batch_size=4, lag=1), prompts, all_params))
    plain, otherwise = (
        told(generate(LLM(folders[0], spec=None, max_batch_size=4), prompts, params))
        for params in (all_params, without)
    )
    assert outs == plain
    assert outs[::3] != otherwise[::3] and outs[1::3] == otherwise[1::3]


def test_where_nothing_is_chosen():
    with pytest.raises(InvalidParams, match="chooses the draft tree itself"):
        SpecConfig("auto", tree=DynamicTree(2, 2, 4))


def test_auto_takes_the_head_that_belongs_to_the_target(folders, tmp_path):
    def comes_to(model, **spec):
        return resolved(EngineConfig(model, SpecConfig("auto", **spec), device="cpu")).spec

    tree = dict(tree=DynamicTree(), num_draft_tokens=DynamicTree().depth, adaptive=True)
    assert comes_to(None) == SpecConfig("eagle3", **tree)
    assert comes_to(None, num_forced_tokens=4) == SpecConfig(
        "eagle3", num_forced_tokens=4, adaptive=True
    )
    assert comes_to(folders[0]) == SpecConfig("suffix", num_forced_tokens=8, adaptive=True)
    assert comes_to(folders[0], num_forced_tokens=4) == SpecConfig(
        "suffix", num_forced_tokens=4, adaptive=True
    )
    assert comes_to(save_mimo(tmp_path)) == SpecConfig("mtp", **tree)
    with pytest.raises(InvalidParams, match=r"leave spec\.model out"):
        SpecConfig("auto", model="head")


@pytest.mark.parametrize("model", [None, "target"])
def test_auto_changes_no_token(folders, model):
    model = model and folders[0]
    prompts, all_params = cases(2, 8)
    outs = generate(LLM(model, spec="auto", max_batch_size=4), prompts, all_params)
    assert told(outs) == told(
        generate(LLM(model, spec=None, max_batch_size=4), prompts, all_params)
    )


def test_the_benchmark_writes_its_texts():
    row = measure(
        Task("switching", 2, 30, 2.86, 10), load_models(), 1
    )  # ends the process where an output is another
    assert row["of_plain"] > 0.3 and row["adaptive_tokens_per_s"] > 0
