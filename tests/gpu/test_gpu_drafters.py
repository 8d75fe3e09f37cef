"""MTP heads and small models as drafters in captured iterations: no token changes, and the target
drafts itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from baseline_llm import baseline_llm
from draft_models import PROMPTS
from random_requests import cases
from tiny_engine import told

from specguide import LLM, SamplingParams, SpecConfig

pytestmark = pytest.mark.gpu

K = 3
FP32 = dict(device="cuda", dtype="float32", max_batch_size=8)


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize("method", ["mtp", "draft_model"])
def test_no_drafter_changes_a_token(folders, mtp_head: Path, drafter: Path, method, params):
    prompts, all_params = cases(1, 60, **params)
    model = {"mtp": mtp_head, "draft_model": drafter}[method]
    plain = LLM(folders[0], spec=None, **FP32).generate(prompts, all_params)
    for baseline in (None, "two models"):
        llm = baseline_llm(folders[0], baseline, spec=SpecConfig(method, model, K), **FP32)
        for _ in range(2):  # the second time all sizes are captured
            outputs = llm.generate(prompts, all_params)
            assert told(outputs) == told(plain)
        llm._engine.check_integrity()
        llm.close()


def test_the_target_as_its_own_drafter_is_nearly_always_right(folders):
    """Its passes have other shapes than the target's, so a rounding may tip a tie, but no key is
    missing."""
    llm = LLM(
        folders[0], spec=SpecConfig("draft_model", folders[0], K), max_prefill_tokens=16, **FP32
    )
    for _ in range(2):
        outputs = llm.generate(PROMPTS, SamplingParams(max_tokens=1 + 8 * (K + 1), ignore_eos=True))
        iterations = [out.metrics.num_iterations for out in outputs]
        assert sum(iterations) <= 8 * len(PROMPTS) + 2
    llm.close()
