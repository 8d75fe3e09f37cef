"""Log-probabilities of prompts on a GPU: those of a plain forward, and what follows stays
captured."""

from __future__ import annotations

import pytest
from adjusted_requests import asking, told
from gpu_case import FP32, kinds_captured
from tiny_engine import make

from specguide import CacheConfig, SamplingParams

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("max_prefill_tokens", [16, 2048])
def test_they_are_those_of_a_cpu(folders, lag, max_prefill_tokens):
    prompts, all_params = asking(1, 30)
    outputs = []
    for options in (
        dict(
            lag=lag, max_prefill_tokens=max_prefill_tokens, cache=CacheConfig(num_pages=40), **FP32
        ),
        dict(device="cpu"),
    ):
        llm = make(folders, max_batch_size=8, **options)
        outputs.append(llm.generate(prompts, all_params))
        assert options.get("device") == "cpu" or kinds_captured(llm)
        llm._engine.check_integrity()
        llm.close()
    same = 0
    for on_gpu, on_cpu, params in zip(*outputs, all_params, strict=True):
        same += told(on_gpu) == told(on_cpu)
        if params.prompt_logprobs is None:
            assert on_gpu.prompt_logprobs is None
            continue
        assert on_gpu.prompt_logprobs[0] is None
        for found, expected in zip(
            on_gpu.prompt_logprobs[1:], on_cpu.prompt_logprobs[1:], strict=True
        ):
            chances = [sorted(one.logprob for one in entry.values()) for entry in (found, expected)]
            assert chances[0] == pytest.approx(chances[1], abs=2e-3)
    assert same >= len(prompts) - 2, "another device rounds otherwise, but random logits seldom tie"


def test_results_that_are_read_late_are_their_own(folders):
    """Prompts of different lengths, one chunk after the other, with nothing read in between but
    what lag makes due."""
    llm = make(folders, lag=2, max_prefill_tokens=32, **FP32)
    params = SamplingParams(max_tokens=8, prompt_logprobs=20)
    prompts = [list(range(number, 3 * number + 40)) for number in range(12)]
    together = llm.generate(prompts, params)
    for prompt, out in zip(prompts, together, strict=True):
        (alone,) = llm.generate([prompt], params)
        assert len(alone.prompt_logprobs) == len(prompt)
        for found, expected in zip(out.prompt_logprobs[1:], alone.prompt_logprobs[1:], strict=True):
            chances = [sorted(one.logprob for one in entry.values()) for entry in (found, expected)]
            assert chances[0] == pytest.approx(chances[1], abs=2e-3)
    llm.close()
