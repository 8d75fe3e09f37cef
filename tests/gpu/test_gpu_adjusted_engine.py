"""Adjusted logits and log-probabilities on a GPU: captured they are what they are plainly and on a
CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from adjusted_requests import ADJUSTMENTS, SAMPLED, mixed, told
from gpu_case import FP32, captured, kinds_captured, to_device
from tiny_engine import make

from specguide import SamplingParams
from specguide.batch import Adjustment
from specguide.kernels import BitmaskRows
from specguide.sampling import SlotAdjustments, adjust_logits, chain_paths, score_tokens
from specguide.speculation.batch_sampling import SamplingKind

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("params", [dict(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", ADJUSTMENTS)
def test_speculation_and_capture_change_no_token(folders, name, params):
    prompts, all_params = mixed(1, 30, ADJUSTMENTS[name], **params)
    outputs = []
    for options in (
        dict(spec=True, **FP32),
        dict(spec=False, **FP32),
        dict(spec=True, lag=0, **FP32),
        dict(spec=True, device="cpu"),
    ):
        llm = make(folders, max_batch_size=8, **options)
        outputs.append([told(out) for out in llm.generate(prompts, all_params)])
        if options.get("device") == "cuda":
            assert SamplingKind.ADJUSTED in kinds_captured(llm)
        llm._engine.check_integrity()
        llm.close()
    assert outputs[0] == outputs[1] == outputs[2]
    same = sum(a == b for a, b in zip(outputs[0], outputs[3], strict=True))
    assert same >= len(prompts) - 2, "another device rounds otherwise, but random logits seldom tie"


def test_log_probabilities_are_those_of_a_cpu(folders):
    prompts, all_params = mixed(5, 24, ADJUSTMENTS["all"])
    all_params = [
        replace(one, logprobs=(None, 0, 4, 20)[number % 4]) for number, one in enumerate(all_params)
    ]
    outputs = []
    for options in (FP32, dict(lag=2, **FP32), dict(device="cpu")):
        llm = make(folders, max_batch_size=8, **options)
        outputs.append(llm.generate(prompts, all_params))
        assert (
            llm._engine._executor.step._sized.runner is None
            or SamplingKind.SCORED in kinds_captured(llm)
        )
        llm.close()
    num_compared = 0
    for on_gpu, lagging, on_cpu, params in zip(*outputs, all_params, strict=True):
        assert told(on_gpu) == told(lagging)
        if params.logprobs is None:
            assert on_gpu.logprobs is on_cpu.logprobs is None
        elif on_gpu.token_ids == on_cpu.token_ids:
            for found, expected in zip(on_gpu.logprobs, on_cpu.logprobs, strict=True):
                num_compared += 1
                chances = [
                    sorted(one.logprob for one in entry.values()) for entry in (found, expected)
                ]
                assert chances[0] == pytest.approx(chances[1], abs=1e-3)
    assert num_compared > 100


@pytest.mark.parametrize("vocab_size", [272, 128_256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_captured_adjustment_is_that_of_a_cpu(vocab_size, dtype):
    """They agree to the bit: all of it is elementwise but for what is exact."""
    num_slots, num_nodes = 4, 4
    generator = torch.Generator().manual_seed(0)
    state = SlotAdjustments.neutral(num_slots, vocab_size, torch.device("cpu"))
    base = Adjustment(
        None, (7,), ((1, 2), (3, 1, 2)), {5: 2.5, 6: -3.0}, 4, (9, 11), 1.3, 0.7, -0.4
    )
    state.write(0, base, [1, 2, 3], [3, 1])
    state.write(
        2, replace(base, allowed_ids=tuple(range(0, vocab_size, 2)), min_tokens=0), [4, 4], [2] * 40
    )
    slots, row_ids = torch.tensor([0, 2, 3]), torch.arange(3 * num_nodes)
    drafts = torch.tensor([[2, 3, 1], [1, 2, 5], [1, -1, -1]]).int()
    start = torch.tensor([4, 41, 9])
    logits = torch.randn(3 * num_nodes, vocab_size, generator=generator).mul_(3).to(dtype)
    bitmask = torch.randint(
        -(2**31), 2**31 - 1, (3 * num_nodes, -(-vocab_size // 32)), generator=generator
    ).int()
    guided = torch.tensor([0, 1, 1, 0] * 3).byte()
    rows = BitmaskRows(bitmask, guided, row_ids)
    arguments = (logits, slots, chain_paths(drafts), start, state, rows)
    on_device = [to_device(argument) for argument in arguments]
    graph, adjusted = captured(lambda: adjust_logits(*on_device))
    said, num_accepted = (
        torch.tensor([[2, 3, 8, 8], [1, 4, 4, 4], [6, 6, 6, 6]]).int(),
        torch.tensor([2, 0, -1]).int(),
    )
    taken = [to_device(tensor) for tensor in (said, num_accepted)]
    for _ in range(2):
        graph.replay()
        assert torch.equal(adjusted.cpu(), adjust_logits(*arguments))
        state.take(slots, said, num_accepted)
        on_device[4].take(on_device[1], *taken)
        for name, tensor in vars(state).items():
            assert torch.equal(getattr(on_device[4], name).cpu(), tensor), name
    scoring, scores = captured(lambda: score_tokens(on_device[0], taken[0]))
    scoring.replay()
    expected = score_tokens(logits, said)
    for name in ("logprobs", "top_logprobs"):
        assert torch.allclose(getattr(scores, name).cpu(), getattr(expected, name), atol=1e-4)


def test_after_a_warm_up_every_kind_is_captured(folders):
    llm = make(folders, max_batch_size=3, **FP32)
    llm.warm_up()
    assert kinds_captured(llm) == set(SamplingKind)
    graphs = dict(llm._engine._executor.step._sized.runner._captured)
    for params in (
        SamplingParams(max_tokens=9),
        SamplingParams(max_tokens=9, temperature=1.0, seed=1),
        SamplingParams(max_tokens=9, presence_penalty=1.0),
        SamplingParams(max_tokens=9, logprobs=2),
    ):
        (out,) = llm.generate("ab", params)
        assert out.error is None
    assert llm._engine._executor.step._sized.runner._captured == graphs
    llm.close()
