"""Checkpoints of 4-bit weights in captured iterations on a GPU."""

from __future__ import annotations

from pathlib import Path

import int4_checkpoints
import pytest
import torch
from gpu_case import captured as captured_call
from int4_checkpoints import FORMATS
from random_requests import cases

from benchmarks.equality import differences
from benchmarks.models.logits import logits_of
from benchmarks.passes import Pass
from specguide import LLM, SpecConfig
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", FORMATS)
def test_logits_are_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    """There are few tokens and many, on both sides of each change of kernel."""
    int4_checkpoints.save(tmp_path, FORMATS[name])
    on_gpu = Decoder.load(tmp_path, device="cuda", dtype=torch.float16)
    on_cpu = Decoder.load(tmp_path, device="cpu", dtype=torch.float32)
    for num_tokens in (4, 40, 100):
        tokens = [7 * i % 250 for i in range(num_tokens)]
        found, expected = logits_of(on_gpu, tokens).cpu(), logits_of(on_cpu, tokens)
        torch.testing.assert_close(found, expected, rtol=5e-2, atol=5e-2 * expected.std().item())


@pytest.mark.parametrize(
    ("name", "mixture"),
    [
        ("awq", "qwen3-moe"),
        ("gptq", "qwen3-moe"),
        ("compressed channel", "qwen3-moe"),
        ("gptq", "glm4-moe"),
        ("gptq", "minimax-m2"),
    ],
)
def test_logits_of_a_mixture_are_those_of_a_cpu(name: str, mixture: str, tmp_path: Path) -> None:
    """There are one token, few and many for each expert. All experts are chosen: of like ones, a
    rounding might choose the other."""
    int4_checkpoints.save_mixture(tmp_path, name, num_chosen=4, mixture=mixture)
    on_gpu = Decoder.load(tmp_path, device="cuda", dtype=torch.float16)
    on_cpu = Decoder.load(tmp_path, device="cpu", dtype=torch.float32)
    for num_tokens in (1, 8, 40, 100, 400):
        tokens = [7 * i % 250 for i in range(num_tokens)]
        found, expected = logits_of(on_gpu, tokens).cpu(), logits_of(on_cpu, tokens)
        torch.testing.assert_close(found, expected, rtol=5e-2, atol=5e-2 * expected.std().item())


def test_columns_of_experts_in_an_order_are_refused(tmp_path: Path) -> None:
    int4_checkpoints.save_mixture(tmp_path, "gptq ordered")
    with pytest.raises(CheckpointError, match="int4 whose columns are in order"):
        Decoder.load(tmp_path, device="cuda", dtype=torch.float16)


def test_experts_in_float32_are_refused(tmp_path: Path) -> None:
    int4_checkpoints.save_mixture(tmp_path, "gptq")
    with pytest.raises(InvalidParams, match="4-bit experts do not run on a GPU in float32"):
        Decoder.load(tmp_path, device="cuda", dtype=torch.float32)


@pytest.mark.parametrize("name", ["awq", "gptq ordered", "compressed"])
@torch.inference_mode()
def test_a_captured_pass_gives_exactly_what_an_eager_one_gives(name: str, tmp_path: Path) -> None:
    """Passes with each kind of tile run many times in a row."""
    int4_checkpoints.save(tmp_path, FORMATS[name])
    decoder = Decoder.load(tmp_path, device="cuda", dtype=torch.bfloat16)
    for text in ("1x4", "8x4", "30x4", "100x4", "1x100"):
        call = Pass.read(text, 20).call_of(decoder, decoder.dtype)
        expected = call()
        graph, found = captured_call(call)
        for _ in range(20):
            found.zero_()
            graph.replay()
            assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["awq", "gptq ordered", "compressed"])
def test_captured_iterations_write_what_eager_ones_do(name: str, tmp_path: Path) -> None:
    """They agree up to ties: a captured iteration has more rows, so that its sums are rounded
    otherwise."""
    int4_checkpoints.save(tmp_path, FORMATS[name])
    prompts, all_params = cases(8, 9, temperature=0.0)
    draft = SpecConfig("draft_model", tmp_path / "exact", 3)
    engines = [
        LLM(tmp_path, spec=draft, device="cuda", dtype="bfloat16", enforce_eager=is_eager)
        for is_eager in (False, True)
    ]
    prompt_ids = [engines[0].tokenizer.encode(prompt) for prompt in prompts]
    outputs = [llm.generate(prompt_ids, all_params) for llm in engines]
    assert not any(out.error for found in outputs for out in found)
    written = [[out.token_ids for out in found] for found in outputs]
    found = differences(*written)
    assert len(found) <= 2
    on_cpu = Decoder.load(tmp_path, device="cpu", dtype=torch.float32)
    for it in found:
        before = [*prompt_ids[it.request], *written[0][it.request][: it.position]]
        one, other = logits_of(on_cpu, before)[-1][list(it.tokens)]
        assert (one - other).abs() < 0.1, "logits of these models spread by 1.6"
