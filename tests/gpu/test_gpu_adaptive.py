"""IterationLayouts of drafts on a GPU: captured iterations that verify and draft less give what
plain decoding gives."""

from __future__ import annotations

import pytest
from adaptive_engines import make
from gpu_case import check_warm_up
from proposals import make as make_fixed
from random_requests import cases
from tiny_engine import generate, told

pytestmark = pytest.mark.gpu

FP32 = dict(device="cuda", dtype="float32", max_batch_size=8)
METHODS = [
    "eagle3",
    "tree",
    "eagle3 and grammar",
    "draft model and grammar",
    "suffix and grammar",
    "grammar",
]


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize("method", METHODS)
def test_captured_levels_in_any_order_change_no_token(folders, any_level, method, params):
    prompts, all_params = cases(1, 40, **params)
    expected = told(generate(make_fixed(folders, None, **FP32), prompts, all_params))
    for options in (dict(), dict(enforce_eager=True), dict(lag=0), dict(lag=2)):
        outs = generate(make(folders, method, **FP32, **options), prompts, all_params)
        assert told(outs) == expected
        assert any(out.metrics.acceptance_length > 1.1 for out in outs)


@pytest.mark.parametrize(
    ("method", "trace"), [*((method, False) for method in METHODS[:3]), ("tree", True)]
)
def test_a_warm_up_captures_all_levels(folders, any_level, method, trace):
    check_warm_up(make(folders, method, trace=trace, **FP32 | dict(max_batch_size=6)))
