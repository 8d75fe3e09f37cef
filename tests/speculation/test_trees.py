"""Draft trees in the engine: they change how many iterations it takes alone, and no node leaves its
grammar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from adjusted_requests import ADJUSTMENTS, SAMPLED, mixed
from adjusted_requests import told as told_adjusted
from draft_trees import EXPANSIONS, TREES, grown, make
from misfits import FAILURES, HOLDING, check_a_failing_matcher, check_a_sleeping_matcher
from proposals import plain_outputs
from random_requests import cases
from tiny_engine import generate, told

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.config import CacheConfig
from specguide.drafts.tree import DraftTree, DynamicTree
from specguide.errors import InvalidParams
from specguide.params import Speculation
from specguide.speculation.trees import TreeNodes


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "sampled"])
@pytest.mark.parametrize(
    ("tree", "method"),
    [
        *((tree, "eagle3") for tree in TREES),
        ("dynamic", "mtp"),
        ("static", "mtp"),
        ("dynamic", "draft_model"),
        ("static", "draft_model"),
    ],
)
def test_trees_change_no_token(folders, models, tree, method, temperature):
    backend, lag = ("xgrammar", 1) if temperature else ("auto", 2)
    prompts, all_params, expected = plain_outputs(folders, backend, temperature)
    llm = make(
        folders,
        models,
        tree,
        method,
        max_batch_size=8,
        lag=lag,
        guide=GuideConfig(backend=backend),
    )
    outs = generate(llm, prompts, all_params)
    assert told(outs) == expected
    assert any(out.metrics.acceptance_length > 1.3 for out in outs)


def test_unguided_trees_change_no_token(folders, models):
    prompts, all_params, expected = plain_outputs(folders, "auto", 0.0)
    spec = SpecConfig(model=models["eagle3"], tree=TREES["dynamic"], guided_drafts=False)
    assert (
        told(generate(LLM(folders[0], spec=spec, max_batch_size=8), prompts, all_params))
        == expected
    )


def test_a_chain_as_a_tree_accepts_what_a_chain_does(folders, models):
    prompts, all_params = cases(1, 14)
    patient = GuideConfig(deadline_us=5_000_000)  # a draft without a row would be another one
    specs = (
        SpecConfig(model=models["eagle3"], **shape)
        for shape in (dict(tree=DraftTree.chain(3)), dict(num_draft_tokens=3))
    )
    as_tree, as_chain = (
        generate(LLM(folders[0], spec=spec, guide=patient), prompts, all_params) for spec in specs
    )
    for name in ("accepted_histogram", "drafts_proposed", "drafts_accepted"):
        assert [getattr(out.metrics, name) for out in as_tree] == [
            getattr(out.metrics, name) for out in as_chain
        ]
    assert all(out.metrics.drafts_proposed["model"] for out in as_chain)


def test_a_wider_tree_accepts_more(folders, models):
    prompts, all_params = cases(1, 14)
    lengths, drafts = [], []
    for shape in (
        dict(num_draft_tokens=4),
        dict(tree=TREES["dynamic"]),
        dict(tree=DynamicTree(10, 4, 60)),
    ):
        outs = generate(
            LLM(folders[0], spec=SpecConfig(model=models["eagle3"], **shape)), prompts, all_params
        )
        lengths.append(
            sum(len(out.token_ids) for out in outs)
            / sum(out.metrics.num_iterations for out in outs)
        )
        proposed = sum(sum(out.metrics.drafts_proposed.values()) for out in outs)
        drafts.append(proposed / sum(out.metrics.num_iterations for out in outs))
    assert drafts == sorted(drafts) and 15 < drafts[1] <= 20 and 50 < drafts[2] <= 60
    assert lengths == sorted(lengths) and lengths[2] > 1.1 * lengths[0]


@pytest.mark.parametrize("backend", ["auto", "xgrammar"])
def test_every_node_is_verified_under_what_its_path_allows(folders, models, backend):
    """Whatever the target says after a node: it is chosen under the row that a fresh matcher fills
    behind its path."""
    llm = make(folders, models, "dynamic", max_batch_size=4, guide=GuideConfig(backend=backend))
    trees, num_checked = llm._engine._executor.step._iteration._drafting, 0
    verify, running = trees.verify, {}

    def checked(logits, nodes, *others):
        nonlocal num_checked
        inputs, rows = nodes.inputs, llm._engine._executor.grammar
        for row, slot in enumerate(inputs.slots.tolist()):
            request = running.get(slot)
            if rows.held[slot] or request is None or request.params.guide is None:
                continue
            for node in range(inputs.num_nodes if isinstance(nodes, TreeNodes) else 0):
                path = [int(token) for token in nodes.trees.paths(4)[row, node] if token >= 0]
                is_there = node == 0 or int(nodes.trees.tokens[row, node]) >= 0
                place = int(nodes.trees.places[row, node])
                matcher = llm._engine.grammar_of(request.params).matcher()
                if is_there and all(map(matcher.accept, [*request.output_ids, *path])):
                    expected = np.zeros(rows.bitmask.shape[2], dtype=np.int32)
                    if not matcher.is_terminated:
                        matcher.fill(expected)
                        assert rows.guided[place, slot]
                        assert rows.bitmask[place, slot].tolist() == expected.tolist()
                        num_checked += 1
                elif is_there:  # its parent's row forbids it, so it cannot be chosen
                    parent = int(nodes.trees.places[row, nodes.trees.parents[row, node]])
                    token = int(nodes.trees.tokens[row, node])
                    assert not int(rows.bitmask[parent, slot, token // 32]) >> token % 32 & 1
        return verify(logits, nodes, *others)

    trees.verify = checked
    prompts, all_params = cases(5, 20)
    engine = llm._engine
    for prompt, params in zip(prompts, all_params, strict=True):
        engine.add(engine.prompt_ids(prompt), params)
    while engine.num_unfinished:
        running |= {each.slot: each.request for each in engine._scheduler._placement.decoding}
        engine.step()
    llm.close()
    assert num_checked > 200


@pytest.mark.parametrize(
    "params", [dict(), SAMPLED, dict(logprobs=3)], ids=["greedy", "sampled", "scored"]
)
def test_adjusted_requests(folders, models, params):
    prompts, all_params = mixed(3, 24, ADJUSTMENTS["all"], **params)
    plain, tree = (
        generate(LLM(folders[0], spec=spec, max_batch_size=8), prompts, all_params)
        for spec in (None, SpecConfig(model=models["eagle3"], tree=TREES["dynamic"]))
    )
    for one, other in zip(tree, plain, strict=True):
        assert told_adjusted(one) == told_adjusted(other)
        for found, expected in zip(one.logprobs or (), other.logprobs or (), strict=False):
            assert {token: score.logprob for token, score in found.items()} == pytest.approx(
                {token: score.logprob for token, score in expected.items()}, abs=1e-4
            )


@pytest.mark.parametrize(("action", "words"), FAILURES)
def test_a_failing_matcher_ends_its_own_request(folders, models, action, words):
    check_a_failing_matcher(make(folders, models, "dynamic"), action, words)


def test_a_sleeping_matcher_is_held(folders, models):
    check_a_sleeping_matcher(make(folders, models, "dynamic", guide=HOLDING))


def test_outputs_end_exactly_where_the_context_does(folders, models):
    prompts = ["abc " * 120 + "x" * n for n in range(28, 32)]
    for out, prompt in zip(
        generate(
            make(folders, models, "wide", lag=2),
            prompts,
            SamplingParams(max_tokens=64, ignore_eos=True),
        ),
        prompts,
        strict=True,
    ):
        assert (out.finish_reason, len(prompt) + len(out.token_ids)) == ("length", 512)


def test_few_pages(folders, models):
    """Preemption and prefix reuse beside trees, whose keys are moved: what is shared is what a
    chain leaves."""
    prompts, all_params = cases(6, 16)
    prompts = ["a common beginning " * 3 + prompt for prompt in prompts]
    plain = generate(LLM(folders[0], spec=None, max_batch_size=8), prompts, all_params)
    llm = make(
        folders, models, "dynamic", max_batch_size=8, cache=CacheConfig(page_size=4, num_pages=150)
    )
    assert told(llm.generate(prompts, all_params)) == told(plain)
    assert told(generate(llm, prompts, all_params)) == told(plain)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (dict(method="ngram", tree=DynamicTree()), "has none"),
        (dict(num_forced_tokens=4, tree=DynamicTree()), "forced"),
        (dict(tree=DraftTree((-1,))), "needs at least one draft"),
        (dict(tree=DraftTree((-1, *[0] * 20))), "may have at most 16 children"),
        (dict(tree=DraftTree.chain(17)), "may have at most 16"),
    ],
)
def test_what_trees_cannot_do_is_said(spec, words):
    with pytest.raises(InvalidParams, match=words):
        SpecConfig(**spec)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (dict(top_k=0), "top_k"),
        (dict(depth=17), "depth"),
        (dict(num_nodes=1), "num_nodes"),
        (dict(top_k=2, depth=2, num_nodes=8), "at most 7"),
    ],
)
def test_impossible_dynamic_trees(shape, words):
    with pytest.raises(InvalidParams, match=words):
        DynamicTree(**shape)


def test_logits_processors_are_refused(folders, models):
    llm = make(folders, models, "dynamic")
    (out,) = generate(llm, "ab", SamplingParams(logits_processors=[lambda ids, logits: logits]))
    assert isinstance(out.error, InvalidParams) and "chain" in str(out.error)


def test_shipped_head_gains_from_a_tree():
    properties = {"city": {"type": "string"}, "year": {"type": "integer"}}
    guide = Guide(
        json_schema={
            "type": "object",
            "properties": properties,
            "required": ["city", "year"],
            "additionalProperties": False,
        }
    )
    lengths = []
    for tree in (None, DynamicTree()):
        llm = LLM(spec=SpecConfig(tree=tree))
        (out,) = generate(
            llm,
            ["The bridge in Porto was finished in 1886."],
            SamplingParams(max_tokens=60, guide=guide),
        )
        lengths.append(out.metrics.acceptance_length)
    assert lengths[1] >= lengths[0]


def test_expansion_of_a_static_tree_finds_its_nodes():
    """What is chosen among the candidates of its depths has the shape of the tree."""
    tree = DraftTree.from_choices([[0], [1], [2], [0, 0], [2, 0], [2, 1], [2, 0, 0]])
    expansion = tree.expansion
    assert expansion.widths == (2, 1) and expansion.stage_begins == (0, 1, 3, 4, 11)
    assert expansion.candidate_begins == (0, 3, 9, 12) and expansion.fixed is not None
    assert expansion.fixed.expanded == ((0, 2), (6,)) and expansion.fixed.chosen == (
        0,
        1,
        2,
        3,
        6,
        7,
        9,
    )


@pytest.mark.parametrize("expansion", EXPANSIONS)
def test_growth_keeps_ancestors(expansion):
    """Random scores: every node's parent is there, before it, and the walk's places say the
    same."""
    trees, walk, _ = grown(expansion)
    slots = walk["slots"].tolist()
    for slot in range(8):
        if slot not in slots or slots.index(slot) == 2:  # held, or not of the batch
            assert (trees.tokens[slot] == -1).all() and (walk["walk_tokens"][slot] == -7).all()
            continue
        for node in range(1, trees.tokens.shape[1]):
            if trees.tokens[slot, node] < 0:
                continue
            parent, place = int(trees.parents[slot, node]), int(trees.places[slot, node])
            assert parent < node and trees.depths[slot, node] == trees.depths[slot, parent] + 1
            assert walk["walk_tokens"][slot, place] == trees.tokens[slot, node]
            assert walk["walk_parents"][slot, place] == trees.places[slot, parent]
            seen = {node, *(int(n) for n in trees.ancestor_mask[slot, parent].nonzero())}
            assert seen == {int(n) for n in trees.ancestor_mask[slot, node].nonzero()}
        places = {int(place) for place in trees.places[slot, 1:][trees.tokens[slot, 1:] >= 0]}
        told = {
            place
            for place, token in enumerate(walk["walk_tokens"][slot].tolist())
            if place and token >= 0
        }
        assert places <= told and told - places <= set(
            expansion.expanded_places
        )  # some expanded ones are not verified
        assert (trees.tokens[slot, expansion.num_nodes :] == -1).all()


def test_smaller_trees_have_places_within_a_larger_one():
    whole = DynamicTree(4, 4, 16).expansion
    chain = DraftTree.chain(3).expansion.within(whole)
    assert (
        chain.stage_begins == (0, 1, 5, 13, 28)
        and chain.expanded_places == (0, 1, 5)
        and chain.num_places == 28
    )
    for shape in (
        DynamicTree(4, 5, 16),
        DynamicTree(5, 4, 16),
        DynamicTree(4, 4, 17),
        DraftTree.chain(1),
    ):
        assert shape.expansion.within(whole) is None
    assert whole.within(whole) is None


def test_requests_choose_how_deep_their_trees_are(folders, models):
    prompts, all_params, expected = plain_outputs(folders, "auto", 0.0)
    choices = [
        None,
        Speculation(num_draft_tokens=0),
        Speculation(num_draft_tokens=2),
        Speculation(guided_drafts=False),
    ]
    all_params = [
        replace(params, speculation=choices[number % 4]) for number, params in enumerate(all_params)
    ]
    for tree in ("dynamic", "static"):
        outs = generate(make(folders, models, tree, max_batch_size=8), prompts, all_params)
        assert told(outs) == expected
        assert {len(out.metrics.accepted_histogram) for out in outs} == {
            TREES[tree].expansion.depth + 1
        }
        for number, most in ((1, 0), (2, 2)):
            assert not any(
                any(out.metrics.accepted_histogram[most + 1 :]) for out in outs[number::4]
            )
        assert any(any(out.metrics.accepted_histogram[1:]) for out in outs[2::4])
