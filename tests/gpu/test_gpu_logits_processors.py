"""Logits processors on a GPU: what they make of the logits is what they make of them on a CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from adjusted_requests import SAMPLED, told
from arrangements import make_arranged
from gpu_case import DEVICE, FP32, kinds_captured
from logits_processors import PROCESSORS, alternate, fails_after, processed, raises
from tiny_engine import make

from specguide import SamplingParams
from specguide.sampling import bind_processors, process_logits
from specguide.sampling.processors import RequestProcessors

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("params", [dict(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_speculation_changes_no_token(folders, name, params):
    prompts, all_params = processed(name, 1, 30, **params)
    outputs = []
    for options in (
        dict(**FP32),
        dict(spec=False, **FP32),
        dict(lag=0, **FP32),
        dict(enforce_eager=True, **FP32),
        dict(device="cpu"),
    ):
        llm = make(folders, max_batch_size=8, **options)
        outputs.append([told(out) for out in llm.generate(prompts, all_params)])
        llm._engine.check_integrity()
        llm.close()
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]
    same = sum(a == b for a, b in zip(outputs[0], outputs[4], strict=True))
    assert same >= len(prompts) - 2, "another device rounds otherwise, but random logits seldom tie"


def test_two_models(folders):
    prompts, all_params = processed("several", 3, 16, **SAMPLED)
    outputs = []
    for baseline in (None, "two models"):
        llm = make_arranged(folders, baseline=baseline, max_batch_size=6, **FP32)
        outputs.append([told(out) for out in llm.generate(prompts, all_params)])
        llm.close()
    assert outputs[0] == outputs[1]


def test_batches_without_processors_stay_captured(folders):
    llm = make(folders, max_batch_size=4, **FP32)
    free = SamplingParams(max_tokens=20, ignore_eos=True)
    expected = llm.generate(["ab"] * 3, free)
    assert kinds_captured(llm)
    graphs = dict(llm._engine._executor.step._sized.runner._captured)
    bad = replace(free, logits_processors=[alternate, fails_after(5, raises)])
    for _ in range(3):
        *outputs, failed = llm.generate(["ab"] * 4, [free, free, free, bad])
        assert [out.token_ids for out in outputs] == [out.token_ids for out in expected]
        assert "nobody home" in str(failed.error) and len(failed.token_ids) == 5
    captured = llm._engine._executor.step._sized.runner._captured
    assert all(captured[key] is graph for key, graph in graphs.items() if graph is not None)
    llm.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_come_and_go_as_they_are(dtype):
    """A processor may also answer from the device; rows of nobody's keep their values, to the
    bit."""
    params = SamplingParams(logits_processors=[lambda ids, logits: (logits * 2).to(DEVICE)])
    doubling = RequestProcessors(bind_processors(params, [1, 2]), [])
    logits = torch.randn(12, 128_256, device=DEVICE).to(dtype)
    before, drafts = (
        logits.clone(),
        torch.tensor([[1, 2, 3], [4, 5, 6], [7, -1, -1]], device=DEVICE).int(),
    )
    processed_logits, failures = process_logits(logits, drafts, {1: doubling, 2: doubling})
    doubled = torch.tensor([[1]] * 4 + [[2]] * 4 + [[2]] * 2 + [[1]] * 2, device=DEVICE)
    assert (
        failures == {} and torch.equal(logits, before) and processed_logits.dtype == torch.float32
    )
    assert torch.equal(processed_logits, before.float() * doubled)
