"""Proposals on a GPU: captured iterations in which callbacks lengthen the chains give what plain
decoding gives."""

from __future__ import annotations

import pytest
from gpu_case import FP32, check_warm_up
from proposals import METHODS, make
from random_requests import cases
from tiny_engine import told

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize("method", METHODS)
def test_captured_proposals_change_no_token(folders, method, params):
    prompts, all_params = cases(1, 40, **params)
    prompts = [
        prompt * (1 + number % 4) for number, prompt in enumerate(prompts)
    ]  # lookups need repetition
    outputs = []
    for name, options in (
        (None, {}),
        (method, {}),
        (method, dict(enforce_eager=True)),
        (method, dict(lag=0)),
    ):
        llm = make(folders, name, max_batch_size=8, **FP32, **options)
        outs = llm.generate(prompts, all_params)
        outputs.append(told(outs))
        llm._engine.check_integrity()
        llm.close()
        assert name is None or any(out.metrics.acceptance_length > 1.15 for out in outs)
    assert outputs[1:] == outputs[:1] * 3


@pytest.mark.parametrize("method", ["grammar", "eagle3 and grammar", "suffix"])
def test_a_warm_up_captures_what_requests_need(folders, method):
    check_warm_up(make(folders, method, max_batch_size=6, **FP32))
