"""Parts of models on two ranks give the logits of the whole; what cannot be cut is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import int4_checkpoints
import pytest
import torch
from paging import Sequences
from random_models import CASES, random_model, tokens
from torch import Tensor
from two_ranks import each_of_two

from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder
from specguide.parallel import ONE_RANK, Ranks

CUT = (
    "llama-tied",
    "llama-biases",
    "llama-head_dim",
    "qwen2",
    "qwen3",
    "gemma3",
    "gemma4-e2b",
    "gemma4-experts",
    "mixtral",
    "qwen3-moe",
    "olmoe",
    "glm4-moe-norms",
    "deepseek2-lite",
    "deepseek3",
    "minimax-m2",
)
REFUSED = ("gpt-oss",)


def save(name: str, folder: Path) -> Path:
    family, settings = CASES[name]
    random_model(family, **settings).save_pretrained(folder)
    return folder


def logits(
    folder: Path, ranks: Ranks = ONE_RANK, decoder: Decoder | None = None, **settings: str
) -> Tensor:
    """The logits of a few tokens."""
    with torch.inference_mode():
        decoder = decoder or Decoder.load(folder, ranks=ranks, **settings)
        sequences = Sequences(1, 8)
        cache = sequences.cache(decoder.config, ranks=ranks)
        hidden, _ = decoder.forward(tokens(8), sequences.extend([8]), cache)
        return decoder.logits(hidden)


def on_two_ranks(folder: Path, **settings: str) -> list[Tensor]:
    return each_of_two(lambda ranks: logits(folder, ranks, **settings))


@pytest.mark.parametrize("name", CUT)
def test_two_parts_give_the_logits_of_the_whole(name, tmp_path):
    expected = logits(save(name, tmp_path))
    first, second = on_two_ranks(tmp_path)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_cut_is_refused(name, tmp_path):
    save(name, tmp_path)
    with pytest.raises(InvalidParams, match="tensor_parallel_size"):
        on_two_ranks(tmp_path)


@pytest.mark.parametrize("name", ["llama-tied", "mixtral"])
def test_weights_rounded_to_fp8_are_cut(name, tmp_path):
    """Each part has scales of its own, so that it rounds otherwise, and no worse."""
    exact = logits(save(name, tmp_path))
    whole_error = (logits(tmp_path, quantization="fp8") - exact).norm()
    first, second = on_two_ranks(tmp_path, quantization="fp8")
    assert torch.equal(first, second)
    error = (first - exact).norm()
    assert error < 1.5 * whole_error


def whole_experts(folder: Path) -> list[tuple[Tensor, int]]:
    """Logits, and bytes of the experts' matrices, of two ranks that have whole experts each."""

    def run(ranks: Ranks) -> tuple[Tensor, int]:
        decoder: Any = Decoder.load(folder, ranks=ranks)
        return logits(folder, ranks, decoder), bytes_of_experts(decoder)

    return each_of_two(run, has_whole_experts=True)


def bytes_of_experts(decoder: Any) -> int:
    return sum(
        it.tensor.nbytes for name, it in decoder.destinations().items() if ".experts." in name
    )


def check_whole_experts(folder: Path) -> None:
    whole: Any = Decoder.load(folder)
    expected = logits(folder, decoder=whole)
    (first, first_bytes), (second, second_bytes) = whole_experts(folder)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, expected, rtol=1e-3, atol=1e-3)
    assert first_bytes == second_bytes == bytes_of_experts(whole) // 2


@pytest.mark.parametrize(
    "name", ["qwen3-moe", "gpt-oss", "glm4-moe", "deepseek3", "gemma4-experts"]
)
def test_whole_experts_on_two_ranks_give_the_logits_of_all(name, tmp_path):
    check_whole_experts(save(name, tmp_path))


@pytest.mark.parametrize("name", ["awq", "gptq", "compressed channel", "compressed asymmetric"])
def test_whole_experts_of_four_bits(name, tmp_path):
    """Projections beside them are cut."""
    int4_checkpoints.save_mixture(tmp_path, name, mixture="mixtral")
    check_whole_experts(tmp_path)


def test_experts_that_ranks_cannot_divide_are_refused(tmp_path):
    save("mixtral", tmp_path)
    with pytest.raises(InvalidParams, match="5 experts cannot be divided evenly among 2 ranks"):
        whole_experts(tmp_path)


@pytest.mark.parametrize("name", ["awq", "gptq", "compressed channel", "compressed asymmetric"])
def test_weights_of_four_bits_are_cut(name, tmp_path):
    int4_checkpoints.save(tmp_path, int4_checkpoints.FORMATS[name])
    expected = logits(tmp_path)
    first, second = on_two_ranks(tmp_path)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, expected, rtol=1e-3, atol=1e-3)


def test_ordered_columns_are_not_cut(tmp_path):
    int4_checkpoints.save(tmp_path, int4_checkpoints.FORMATS["gptq ordered"])
    with pytest.raises(CheckpointError, match=r"g_idx of shape .* cannot be cut among 2 ranks"):
        on_two_ranks(tmp_path)
