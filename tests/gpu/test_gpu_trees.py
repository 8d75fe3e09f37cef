"""Draft trees on a GPU: captured iterations give what plain decoding gives."""

from __future__ import annotations

import pytest
from draft_trees import make
from gpu_case import FP32, check_warm_up
from random_requests import cases
from tiny_engine import generate, told

from specguide import LLM

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize(
    ("tree", "method"),
    [("dynamic", "eagle3"), ("static", "eagle3"), ("wide", "mtp"), ("deep", "draft_model")],
)
def test_captured_trees_change_no_token(folders, models, tree, method, params):
    prompts, all_params = cases(1, 40, **params)
    plain = LLM(folders[0], spec=None, max_batch_size=8, **FP32)
    expected = told(plain.generate(prompts, all_params))
    plain.close()
    for options in ({}, dict(enforce_eager=True), dict(lag=0)):
        llm = make(folders, models, tree, method, max_batch_size=8, **FP32, **options)
        outs = generate(llm, prompts, all_params)
        assert told(outs) == expected
        assert any(out.metrics.acceptance_length > 1.3 for out in outs)


def test_a_warm_up_captures_what_requests_need(folders, models):
    check_warm_up(make(folders, models, "dynamic", max_batch_size=6, **FP32))


def test_trees_accept_on_a_gpu_what_they_accept_on_a_cpu(folders, models):
    """They agree but for a few equals among the drafts: the trees themselves are alike."""
    prompts, all_params = cases(1, 30)
    lengths = []
    for device in ("cpu", "cuda"):
        llm = make(folders, models, "dynamic", max_batch_size=8, **{**FP32, "device": device})
        outs = llm.generate(prompts, all_params)
        lengths.append(
            sum(len(out.token_ids) for out in outs)
            / sum(out.metrics.num_iterations for out in outs)
        )
        llm.close()
    assert lengths[1] == pytest.approx(lengths[0], rel=0.03)
