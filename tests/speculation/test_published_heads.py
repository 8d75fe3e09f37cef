"""Heads in the layouts that are published: in the engine none changes a token, and the drafts of a
P-EAGLE head are those of one pass over the text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from paging import Sequences
from published_heads import LAYOUTS, save_layout
from random_requests import cases
from tiny_engine import generate, told

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder, Eagle3Head

K = 3


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("heads")
    return {layout: save_layout(folder / layout.replace(" ", "_"), layout) for layout in LAYOUTS}


@pytest.fixture(scope="module")
def plain(folders):
    outs = generate(LLM(folders[0], spec=None, max_batch_size=8), *cases(5, 7))
    return told(outs)


def method(layout: str) -> str:
    return "peagle" if layout == "P-EAGLE" else "eagle3"


CHAIN, TREE = dict(), dict(tree=DynamicTree(3, 3, 8))
OTHERS = [dict(guided_drafts=False), dict(adaptive=True), dict(num_forced_tokens=4)]
SHAPES = [
    *((layout, options) for layout in LAYOUTS for options in (CHAIN, TREE)),
    *((layout, options) for layout in ("EAGLE-3.1", "P-EAGLE") for options in OTHERS),
]


@pytest.mark.parametrize(("layout", "options"), SHAPES, ids=str)
def test_no_layout_changes_a_token(folders, heads, plain, layout, options):
    if method(layout) == "peagle" and not {"num_forced_tokens", "tree"}.isdisjoint(options):
        with pytest.raises(InvalidParams, match="makes all its drafts in one pass"):
            SpecConfig(method(layout), heads[layout], K, **options)
        return
    spec = SpecConfig(method(layout), heads[layout], K, **options)
    llm = LLM(folders[0], spec=spec, max_batch_size=8, max_prefill_tokens=16)
    outs = generate(llm, *cases(5, 7))
    assert told(outs) == plain
    is_random = "guided_drafts" in options  # nothing of a random head's is accepted then
    assert is_random or any(out.metrics.acceptance_length > 1.1 for out in outs)


def test_a_method_of_the_other_kind_is_refused(folders, heads):
    with pytest.raises(CheckpointError, match="use the method 'peagle'"):
        LLM(folders[0], spec=SpecConfig("eagle3", heads["P-EAGLE"]))
    with pytest.raises(CheckpointError, match="use the method 'eagle3'"):
        LLM(folders[0], spec=SpecConfig("peagle", heads["two layers"]))
    with pytest.raises(InvalidParams, match=r"needs the folder of a head.*model=folder"):
        LLM(folders[0], spec="peagle")


def test_another_target_needs_the_folder_of_its_head(folders):
    with pytest.raises(InvalidParams, match=r"head for .*the shipped one does not fit.*--head"):
        LLM(folders[0], spec="eagle3")


@torch.inference_mode()
def drafts_in_one_pass(
    target: Decoder, head: Eagle3Head, ids: list[int], allowed: list[int]
) -> list[int]:
    """The drafts that follow `ids`, whose last is the golden token, each chosen among those
    allowed."""
    sequences = Sequences(1, len(ids) + K)
    _, aux = target.forward(
        torch.tensor(ids),
        sequences.extend([len(ids)]),
        sequences.cache(target.config),
        head.aux_layers,
    )
    features = torch.cat((head.fuse(aux)[:-1], head.mask_feature.expand(K - 1, -1)))
    tokens = torch.tensor([*ids[1:], *[head.mask_token_id] * (K - 1)])
    sequences = Sequences(1, len(tokens))
    context = sequences.extend([len(tokens)])
    _, normed = head.forward(tokens, features, context, sequences.cache(head.config))
    is_allowed = torch.isin(head.target_ids, torch.tensor(allowed))
    logits = head.draft_logits(normed[-K:]).masked_fill(~is_allowed, float("-inf"))
    return head.target_ids[logits.argmax(-1)].tolist()


@pytest.mark.parametrize("lag", [0, 2])
def test_drafts_of_a_peagle_head_are_those_of_one_pass(folders, heads, lag):
    llm = LLM(
        folders[0],
        spec=SpecConfig("peagle", heads["P-EAGLE"], K),
        max_batch_size=4,
        max_prefill_tokens=16,
        lag=lag,
        guide=GuideConfig(deadline_us=60_000_000),
    )
    prompts = ["abcabcabc" * 3, "xy", "The quick brown fox", "cab"]
    guide = Guide(regex="[abc]{24}")
    params = SamplingParams(max_tokens=24, guide=guide, return_drafts=True)
    outs, allowed = llm.generate(prompts, params), llm.tokenizer.encode("abc")
    target = Decoder.load(folders[0])
    head = Eagle3Head.load(heads["P-EAGLE"], target)
    num_compared = num_accepted = 0
    for prompt, out in zip(prompts, outs, strict=True):
        ids = llm.tokenizer.encode(prompt)
        for one in out.iterations:
            if one.drafts and len(ids) + K < len(llm.tokenizer.encode(prompt)) + 24:
                assert list(one.drafts) == drafts_in_one_pass(target, head, ids, allowed)
                num_compared += 1
                num_accepted += one.num_accepted
            ids += one.tokens
    llm.close()
    assert num_compared > 8 and num_accepted > 0
