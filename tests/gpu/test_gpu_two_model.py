"""The modes that the one-model step is compared with, on a GPU: graphs of single passes, Python
callbacks in graphs."""

from __future__ import annotations

import pytest
from arrangements import ARRANGEMENTS, generate, make_arranged
from random_requests import cases
from requests_of_every_kind import PATIENT

pytestmark = pytest.mark.gpu

FP32 = dict(device="cuda", dtype="float32", max_batch_size=8, guide=PATIENT)
PYTHON = dict(baseline="Python callbacks")


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
def test_outputs_are_those_of_the_one_model_step(folders, params):
    prompts, all_params = cases(1, 60, **params)
    expected, _ = generate(make_arranged(folders, **FP32), prompts, all_params)
    for options in (PYTHON, *ARRANGEMENTS.values(), dict(baseline="two models, Python callbacks")):
        outputs, _ = generate(make_arranged(folders, **FP32, **options), prompts, all_params)
        assert outputs == expected, options


def test_each_pass_is_captured(folders):
    llm = make_arranged(folders, baseline="two models", **FP32)
    llm.generate(*cases(1, 20))
    step = llm._engine._executor.step
    for graphs in (step._target_chain, step._refresh_chain, step._draft_next):
        assert any(captured is not None for captured in graphs._captured.values())
    llm.close()
