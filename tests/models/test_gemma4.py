"""What the folders of Gemma 4 have that other folders have not."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from random_models import GEMMA4, GEMMA4_SMALL, random_model, tokens
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.models.logits import logits_of
from specguide import LLM, CacheConfig
from specguide.config import EngineConfig
from specguide.engine.setup.facts import resolved
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder, read_config
from specguide.models.cache_shape import cache_shape
from specguide.parallel import ONE_RANK, Stage

SHARED = range(3, 6)
OWN = ("k_proj", "v_proj", "k_norm", "v_norm")
SCALES = ("k_scale", "v_scale")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random_model(GEMMA4, **GEMMA4_SMALL).save_pretrained(tmp_path)
    return tmp_path


def add(folder: Path, added: dict[str, Tensor]) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | added, path)


def test_keys_that_no_layer_makes_are_left_aside(folder: Path) -> None:
    """Published folders have them, though these layers read the keys of others."""
    expected = logits_of(Decoder.load(folder), tokens(20).tolist())
    names = [f"model.layers.{layer}.self_attn." for layer in SHARED]
    add(folder, {f"{name}{own}.weight": torch.zeros(2) for name in names for own in OWN})
    assert torch.equal(logits_of(Decoder.load(folder), tokens(20).tolist()), expected)
    add(folder, {"model.layers.2.self_attn.x_proj.weight": torch.zeros(2)})
    with pytest.raises(CheckpointError, match="x_proj"):
        Decoder.load(folder)


def test_a_cache_has_no_room_for_shared_keys(folder: Path) -> None:
    shape = cache_shape(read_config(folder), ONE_RANK)
    assert shape.kinds == ((2, 1, 16, True), (1, 1, 32, True))
    assert shape.places == ((0, 0), (1, 0), (0, 1), (0, 1), (1, 0), (1, 0))


def test_scales_of_a_cache_whose_keys_are_shared_are_refused(tmp_path: Path) -> None:
    sizes = dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), tiny.VOCAB_SIZE)
    random_model(GEMMA4, **GEMMA4_SMALL | sizes).save_pretrained(tmp_path)
    tiny.save_tokenizer(tmp_path)
    names = [f"model.layers.{layer}.self_attn.{own}" for layer in range(3) for own in SCALES]
    add(tmp_path, {name: torch.ones(1) for name in names})
    with pytest.raises(InvalidParams, match=r"layers that share keys .*: use 'bfloat16'"):
        LLM(tmp_path, device="cpu", cache=CacheConfig(kv_cache_dtype="fp8"))


def test_stages_are_refused(folder: Path) -> None:
    with pytest.raises(InvalidParams, match="leave pipeline_parallel_size out"):
        Decoder.load(folder, stage=Stage(0, 2))
    with pytest.raises(InvalidParams, match="keys of layer 2, which lies on another stage"):
        resolved(EngineConfig(folder, pipeline_parallel_size=2, device="cpu"))
