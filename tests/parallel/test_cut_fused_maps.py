"""Models with several maps in one, or with a norm of all heads, give on two ranks the tokens of
one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import float8_checkpoints
import int4_checkpoints
import pytest
import rank_threads
import tiny
import torch
from engine_families import FAMILIES
from random_models import CASES, random_model
from transformers import PreTrainedModel

from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig, GuideConfig
from specguide.engine import Engine
from specguide.errors import CheckpointError
from specguide.models import Decoder
from specguide.parallel import Ranks

PATIENT = GuideConfig(deadline_us=5_000_000, target_wait_us=5_000_000, draft_wait_us=5_000_000)
"""Waits with which no row is ever late."""
PROMPTS = ["abc", "hello" * 9, "a{}"]
PARAMS = [
    SamplingParams(max_tokens=12),
    SamplingParams(max_tokens=12, temperature=0.9, top_p=0.9, seed=3),
    SamplingParams(max_tokens=12, guide=Guide(regex="[a-z]{3,8}(:[0-9]{2,4}){3}")),
]
WIDE: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_hidden_layers": 2,
    "initializer_range": 0.15,
}
"""Sizes of which blocks of 128 divide each part, on two ranks as well."""
FORMS = {
    "fp8 static": partial(float8_checkpoints.save, form=float8_checkpoints.FORMATS["fp8 static"]),
    "fp8 block": partial(float8_checkpoints.save, form=float8_checkpoints.FORMATS["fp8 block"]),
    "awq": partial(int4_checkpoints.save, form=int4_checkpoints.FORMATS["awq"]),
}


def tokens(llm: LLM) -> list[tuple[int, ...]]:
    try:
        return [tuple(it.token_ids) for it in llm.generate(PROMPTS, PARAMS)]
    finally:
        llm.close()


def check_ranks(folder: Path, spec: SpecConfig | None, num_ranks: int = 2) -> None:
    tiny.save_tokenizer(folder)
    config = EngineConfig(folder, spec, PATIENT, max_model_len=128, dtype="float32")
    several = replace(config, tensor_parallel_size=num_ranks)
    assert tokens(rank_threads.llm(several)) == tokens(LLM.around(Engine(config)))


def made(name: str, **sizes: Any) -> PreTrainedModel:
    """A random model of the family."""
    config_class, model_class, own = FAMILIES[name]
    torch.manual_seed(0)
    return model_class(config_class(**{**tiny.SETTINGS, **own, **sizes}))


@pytest.mark.parametrize("name", ["phi3", "glm4", "glm4-0414", "granite4", "olmo2", "olmo3"])
def test_two_ranks_give_the_tokens_of_one_family(name, folders, tmp_path):
    made(name).save_pretrained(tmp_path)
    check_ranks(tmp_path, SpecConfig("eagle3", folders[1], 3))


@pytest.mark.parametrize("name", ["phi3", "qwen3", "olmo2"])
def test_four_ranks_share_two_key_heads(name, folders, tmp_path):
    made(name).save_pretrained(tmp_path)
    check_ranks(tmp_path, SpecConfig("eagle3", folders[1], 3), num_ranks=4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["glm4-0414", "phi3"])
def test_key_heads_are_shared_in_quantized_forms(name, form, tmp_path):
    FORMS[form](tmp_path, model=made(name, **WIDE | {"num_key_value_heads": 1, "head_dim": 128}))
    check_ranks(tmp_path, None)


@pytest.mark.parametrize("form", FORMS)
def test_fused_maps_are_cut_in_quantized_forms(form, tmp_path):
    FORMS[form](tmp_path, model=made("glm4-0414", **WIDE))
    check_ranks(tmp_path, None)


def test_a_block_of_two_ranks_is_refused(tmp_path):
    """Keys and values have 128 features each, so that a scale is of features of both ranks."""
    model = made("phi3", **{**WIDE, "num_key_value_heads": 2})
    FORMS["fp8 block"](tmp_path, model=model)
    with pytest.raises(CheckpointError, match="cannot be cut among 2 ranks"):
        Decoder.load(tmp_path, ranks=Ranks(0, 2))


def test_each_rank_holds_half_of_a_fused_map(tmp_path):
    family, settings = CASES["phi3"]
    random_model(family, **settings).save_pretrained(tmp_path)
    whole, half = Decoder.load(tmp_path), Decoder.load(tmp_path, ranks=Ranks(1, 2))
    for one, two in zip(whole.layers, half.layers, strict=True):
        assert two.attention.qkv.num_bytes * 2 == one.attention.qkv.num_bytes
        assert two.feed_forward.gate_up.num_bytes * 2 == one.feed_forward.gate_up.num_bytes
