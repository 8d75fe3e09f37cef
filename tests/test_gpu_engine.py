"""The engine on a GPU: captured decode iterations give what the same model gives plainly and what it gives on a CPU."""

from __future__ import annotations

import json

import jsonschema
import pytest
from test_engine import Scripted, cases, make, with_misfit
from tiny import save_head, save_target

from specguide import LLM, Guide, GuideConfig, SamplingParams
from specguide.errors import MatcherError

pytestmark = pytest.mark.gpu

FP32 = dict(device="cuda", dtype="float32")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    return save_target(folder / "target"), save_head(folder / "head")


@pytest.mark.parametrize("params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"])
def test_speculation_and_capture_change_no_token(folders, params):
    prompts, all_params = cases(1, 60, **params)
    outputs = []
    for options in (dict(spec=True, **FP32), dict(spec=False, **FP32), dict(spec=True, device="cpu")):
        llm = make(folders, max_batch_size=8, **options)
        outputs.append([out.token_ids for out in llm.generate(prompts, all_params)])
        graphs = llm._engine._runner.step._graphs
        assert graphs is None or any(captured for captured in graphs._captured.values())
        llm._engine.check_integrity()
        llm.close()
    assert outputs[0] == outputs[1]
    same = sum(a == b for a, b in zip(outputs[0], outputs[2], strict=True))
    assert same >= len(prompts) - 2, "another device rounds otherwise, but random logits seldom tie"


def test_a_batch_gives_what_each_request_gives_alone(folders):
    prompts, all_params = cases(2, 12)
    llm = make(folders, max_batch_size=8, **FP32)
    alone = [llm.generate([prompt], [params])[0] for prompt, params in zip(prompts, all_params, strict=True)]
    together = llm.generate(prompts, all_params)
    assert [out.token_ids for out in alone] == [out.token_ids for out in together]
    llm.close()


@pytest.mark.parametrize(("action", "words"), [("raise", "the matcher broke"), ("dead end", "allows no")])
def test_a_failing_matcher_ends_its_own_request(folders, action, words):
    prompts, params = cases(4, 6)
    llm = make(folders, **FP32)
    alone = llm.generate(prompts, params)
    outs, misfit = with_misfit(llm, Scripted(action, 5), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert isinstance(misfit.error, MatcherError) and words in str(misfit.error)
    llm.close()


def test_a_sleeping_matcher_is_held(folders):
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=60, ignore_eos=True)] * 2
    llm = make(folders, guide=GuideConfig(deadline_us=2000), **FP32)
    alone = llm.generate(prompts, params)
    outs, misfit = with_misfit(llm, Scripted("sleep", 3), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert misfit.metrics.num_held > 0 and misfit.error is None and outs[0].metrics.num_held == 0
    llm.close()


def test_the_shipped_model_in_bfloat16():
    llm = LLM(device="cuda")
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "year": {"type": "integer"}},
              "required": ["city", "year"], "additionalProperties": False}
    out, = llm.chat([{"role": "user", "content": "The bridge in Riga was opened in 1932."}],
                    SamplingParams(max_tokens=64, guide=Guide(json_schema=schema)))
    jsonschema.validate(json.loads(out.text), schema)
    assert out.finish_reason == "stop" and out.metrics.acceptance_length > 1.5
    llm.close()
