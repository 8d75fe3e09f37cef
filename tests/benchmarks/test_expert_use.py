"""How many experts the tokens of a pass use, of a tiny model of experts."""

from __future__ import annotations

import pytest
import torch

from benchmarks.models.expert_use import expert_share
from benchmarks.models.llama_8b import RandomModels
from benchmarks.models.qwen3_30b import TINY_EXPERTS
from specguide.parallel import ONE_RANK


def test_the_share_of_experts_grows_with_tokens() -> None:
    models = RandomModels.of((), torch.device("cpu"), torch.float32, 64, TINY_EXPERTS, ONE_RANK)
    with torch.inference_mode():
        shares = [expert_share(models.target, list(range(32)), number) for number in (1, 4, 32)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(2 / 8)  # a token has two of eight
    assert shares[-1] <= 1
