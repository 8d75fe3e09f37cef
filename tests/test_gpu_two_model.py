"""The modes that the one-model step is compared with, on a GPU: graphs of single passes, Python callbacks in graphs."""

from __future__ import annotations

import pytest
from test_engine import Scripted, cases, with_misfit
from test_two_model import ARRANGEMENTS, generate, make
from tiny import save_head, save_target

from specguide import GuideConfig
from specguide.errors import MatcherError

pytestmark = pytest.mark.gpu

FP32 = dict(device="cuda", dtype="float32", max_batch_size=8)
PYTHON = dict(guide=GuideConfig(callbacks="python"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    return save_target(folder / "target"), save_head(folder / "head")


@pytest.mark.parametrize("params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"])
def test_outputs_are_those_of_the_one_model_step(folders, params):
    prompts, all_params = cases(1, 60, **params)
    expected, _ = generate(make(folders, **FP32), prompts, all_params)
    for options in (PYTHON, *ARRANGEMENTS.values(), ARRANGEMENTS["two models"] | PYTHON):
        outputs, _ = generate(make(folders, **FP32, **options), prompts, all_params)
        assert outputs == expected, options


def test_each_pass_is_captured(folders):
    llm = make(folders, arrangement="two_model", **FP32)
    llm.generate(*cases(1, 20))
    step = llm._engine._runner.step
    for graphs in (step._target_chain, step._refresh_chain, step._draft_next):
        assert any(captured is not None for captured in graphs._captured.values())
    llm.close()


@pytest.mark.parametrize("options", [PYTHON, ARRANGEMENTS["two models"]], ids=["Python callbacks", "two models"])
@pytest.mark.parametrize(("action", "words"), [("raise", "the matcher broke"), ("dead end", "allows no")])
def test_a_failing_matcher_ends_its_own_request(folders, action, words, options):
    prompts, params = cases(4, 6)
    llm = make(folders, **FP32, **options)
    alone = llm.generate(prompts, params)
    outs, misfit = with_misfit(llm, Scripted(action, 5), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert isinstance(misfit.error, MatcherError) and words in str(misfit.error)
    llm.close()
