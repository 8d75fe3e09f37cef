"""Dense families in float8 and in 4 bits: the logits of the numbers that their weights are."""

from __future__ import annotations

from pathlib import Path

import float8_checkpoints
import int4_checkpoints
import pytest
import torch
from random_models import CASES, QUANTIZED, random_model, tokens
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks.models.logits import logits_of
from specguide.models import Decoder

FLOAT8 = float8_checkpoints.FORMATS["compressed channel, token"]


def model_of(name: str) -> PreTrainedModel:
    """A small model whose sizes can be put into groups of 32."""
    family, settings = CASES[name]
    inner = dict.fromkeys((it for it in settings if it.endswith("intermediate_size")), 64)
    heads = {"head_dim": 24} if "head_dim" in settings else {}
    sizes = {"intermediate_size": 64, "initializer_range": 0.15, **inner, **heads}
    return random_model(family, **{**settings, **sizes})


@torch.inference_mode()
@pytest.mark.parametrize("name", QUANTIZED)
def test_logits_in_4_bits(name: str, tmp_path: Path) -> None:
    int4_checkpoints.save(tmp_path, int4_checkpoints.FORMATS["awq"], model=model_of(name))
    exact = AutoModelForCausalLM.from_pretrained(tmp_path / "exact").eval()
    ids = tokens(24)
    found = logits_of(Decoder.load(tmp_path), ids.tolist())
    torch.testing.assert_close(found, exact(ids[None]).logits[0], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("name", QUANTIZED)
def test_logits_in_float8(name: str, tmp_path: Path) -> None:
    """They are as near as numbers that lie between two of float8 allow; see
    test_float8_formats.py."""
    float8_checkpoints.save(tmp_path, FLOAT8, model=model_of(name))
    ids = tokens(24)
    expected = float8_checkpoints.reference(tmp_path, FLOAT8)(ids[None]).logits[0]
    found = logits_of(Decoder.load(tmp_path), ids.tolist())
    unrounded = logits_of(Decoder.load(tmp_path / "exact"), ids.tolist())
    error = (found - expected).abs().mean()
    assert error < 0.2 * (unrounded - expected).abs().mean()
