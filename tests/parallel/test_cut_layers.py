"""Parts of models on two ranks give the logits of the whole; what cannot be cut is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from paging import Sequences
from random_models import CASES, random_model, tokens
from torch import Tensor

from specguide.errors import InvalidParams
from specguide.models import Decoder
from specguide.parallel import ONE_RANK, Meeting, Ranks, connect

CUT = ("llama-tied", "llama-biases", "qwen2", "qwen3", "gemma3", "mixtral", "qwen3-moe")
REFUSED = ("gpt-oss", "llama-head_dim")


def save(name: str, folder: Path) -> Path:
    family, settings = CASES[name]
    random_model(family, **settings).save_pretrained(folder)
    return folder


def logits(folder: Path, ranks: Ranks = ONE_RANK, **settings: str) -> Tensor:
    """Of a few tokens."""
    with torch.inference_mode():
        decoder = Decoder.load(folder, ranks=ranks, **settings)
        config = decoder.config
        sequences = Sequences(1, 8)
        cache = sequences.cache(replace(config, num_kv_heads=config.num_kv_heads // ranks.size))
        hidden, _ = decoder.forward(tokens(8), sequences.extend([8]), cache)
        return decoder.logits(hidden)


def on_two_ranks(folder: Path, **settings: str) -> list[Tensor]:
    meeting, store = Meeting.open(2, 60.0)

    def run(rank: int) -> Tensor:
        ranks = connect(meeting, rank, torch.device("cpu"), store if rank == 0 else None)
        return logits(folder, ranks, **settings)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(2)))


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


def test_weights_rounded_to_fp8_are_cut(tmp_path):
    """Each part has scales of its own, so that it rounds otherwise, and no worse."""
    exact = logits(save("llama-tied", tmp_path))
    whole_error = (logits(tmp_path, quantization="fp8") - exact).norm()
    first, second = on_two_ranks(tmp_path, quantization="fp8")
    assert torch.equal(first, second)
    error = (first - exact).norm()
    assert error < 1.5 * whole_error
