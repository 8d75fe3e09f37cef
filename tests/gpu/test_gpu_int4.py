"""Checkpoints of 4-bit weights in captured iterations on a GPU."""

from __future__ import annotations

from pathlib import Path

import int4_checkpoints
import pytest
import torch
from int4_checkpoints import FORMATS
from random_requests import cases

from benchmarks.decoder_logits import logits_of
from specguide import LLM, SpecConfig
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", FORMATS)
def test_logits_are_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    """Of few tokens and of many, on both sides of each change of kernel."""
    int4_checkpoints.save(tmp_path, FORMATS[name])
    on_gpu = Decoder.load(tmp_path, device="cuda", dtype=torch.float16)
    on_cpu = Decoder.load(tmp_path, device="cpu", dtype=torch.float32)
    for num_tokens in (4, 40, 100):
        tokens = [7 * i % 250 for i in range(num_tokens)]
        found, expected = logits_of(on_gpu, tokens).cpu(), logits_of(on_cpu, tokens)
        torch.testing.assert_close(found, expected, rtol=5e-2, atol=5e-2 * expected.std().item())


@pytest.mark.parametrize("name", ["awq", "gptq", "compressed channel"])
def test_logits_of_a_mixture_are_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    """Of one token, of few and of many for each expert. All are chosen: of like ones, a rounding
    might choose the other."""
    int4_checkpoints.save_mixture(tmp_path, name, num_chosen=4)
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
    with pytest.raises(InvalidParams, match="experts of 4 bits do not run on a GPU in float32"):
        Decoder.load(tmp_path, device="cuda", dtype=torch.float32)


@pytest.mark.parametrize("name", ["awq", "gptq ordered", "compressed"])
def test_captured_iterations_write_what_eager_ones_do(name: str, tmp_path: Path) -> None:
    int4_checkpoints.save(tmp_path, FORMATS[name])
    prompts, all_params = cases(8, 9, temperature=0.0)
    draft = SpecConfig("draft_model", tmp_path / "exact", 3)
    captured, eager = (
        LLM(tmp_path, spec=draft, device="cuda", dtype="bfloat16", enforce_eager=is_eager).generate(
            prompts, all_params
        )
        for is_eager in (False, True)
    )
    assert [(out.token_ids, out.error) for out in captured] == [
        (out.token_ids, None) for out in eager
    ]
