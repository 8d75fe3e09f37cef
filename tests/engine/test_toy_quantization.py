"""A quantization from the tests alone: weights of 8 bits, with a scale for each row and group of
columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
import torch.nn.functional as F
from checkpoint_files import config_in, save_checkpoint, weights_in
from random_requests import cases
from tiny_engine import told
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from specguide import LLM, SamplingParams, SpecConfig
from specguide.errors import CheckpointError
from specguide.layers.destination import Destination
from specguide.layers.quantization import (
    QUANTIZATIONS,
    UNQUANTIZED,
    MatrixSpec,
    ProjectionWeights,
)

GROUP = 4
CONFIG = {"quant_method": "toy_int8", "group_size": GROUP, "not_converted": ["lm_head", "mlp.gate"]}


@dataclass(frozen=True, eq=False)
class ToyWeights(ProjectionWeights):
    """weight int8 [out, in], scale float32 [out, in / group_size]."""

    weight: Tensor
    scale: Tensor
    group_size: int

    def destinations(self) -> dict[str, Destination]:
        return {
            "weight": Destination.of(self.weight),
            "weight_scale": Destination.of(self.scale),
        }

    def rows(self, start: int, stop: int) -> ToyWeights:
        return ToyWeights(self.weight[start:stop], self.scale[start:stop], self.group_size)

    def columns(self, start: int, stop: int) -> ToyWeights:
        groups = slice(start // self.group_size, stop // self.group_size)
        return ToyWeights(self.weight[:, start:stop], self.scale[:, groups], self.group_size)

    def product(self, x: Tensor) -> Tensor:
        return F.linear(x, dequantized(self.weight, self.scale).to(x.dtype))


@dataclass(frozen=True)
class ToyInt8:
    group_size: int
    not_converted: tuple[str, ...]

    def create_weights(self, spec: MatrixSpec) -> ProjectionWeights:
        if any(name.endswith(self.not_converted) for name in spec.names):
            return UNQUANTIZED.create_weights(spec)
        shape = (spec.out_features, spec.in_features)
        weight = torch.empty(shape, dtype=torch.int8, device=spec.device)
        scale = torch.empty(shape[0], shape[1] // self.group_size, device=spec.device)
        return ToyWeights(weight, scale, self.group_size)


def read_toy(stated: Mapping[str, Any]) -> ToyInt8:
    return ToyInt8(stated["group_size"], tuple(stated["not_converted"]))


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    groups = weight.unflatten(1, (-1, GROUP))
    scale = groups.abs().amax(-1) / 127
    return (groups / scale[:, :, None]).round().to(torch.int8).flatten(1), scale


def dequantized(weight: Tensor, scale: Tensor) -> Tensor:
    return (weight.unflatten(1, (scale.shape[1], -1)) * scale[:, :, None]).flatten(1)


def is_converted(name: str) -> bool:
    return name.endswith("_proj.weight")


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "qwen3-moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM, EXPERTS),
}


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantized checkpoint; `exact/` in it has the numbers that it stands for."""
    config_class, model_class, own = MODELS[request.param]
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("quantized")
    model_class(config_class(**{**tiny.SETTINGS, **own})).save_pretrained(folder)
    tiny.save_tokenizer(folder)
    quantize(folder)
    return folder


def quantize(folder: Path) -> None:
    config, exact = config_in(folder), weights_in(folder)
    weights = dict(exact)
    for name in filter(is_converted, exact):
        weights[name], scale = quantized(exact[name])
        weights[name.replace(".weight", ".weight_scale")] = scale
        exact[name] = dequantized(weights[name], scale)
    save_checkpoint(folder, config | {"quantization_config": CONFIG}, weights)
    save_checkpoint(folder / "exact", config, exact)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUANTIZATIONS, "toy_int8", read_toy)


def test_tokens_are_those_of_the_numbers_it_stands_for(folder: Path) -> None:
    llm = LLM(folder, spec=None)
    params = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
    output = llm.generate([list(b"abc")], params)[0]
    model = AutoModelForCausalLM.from_pretrained(folder / "exact").eval()
    ids = torch.tensor([[*b"abc", *output.token_ids]])
    with torch.inference_mode():
        expected = model(ids).logits[0, 2:-1].argmax(-1)
    assert list(output.token_ids) == expected.tolist()
    assert len(set(output.token_ids)) > 5


def test_guides_and_draft_heads_work_with_it(folder: Path, folders: tuple[Path, Path]) -> None:
    prompts, all_params = cases(5, 9, temperature=0.0)
    plain, drafted = (
        LLM(folder, spec=spec).generate(prompts, all_params)
        for spec in (None, SpecConfig("eagle3", folders[1], 3))
    )
    assert told(drafted) == told(plain)


def test_a_method_that_is_not_known_names_those_that_are(folder: Path, tmp_path: Path) -> None:
    config = config_in(folder) | {"quantization_config": {"quant_method": "quip"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"quip.* that is supported; supported: .*toy_int8"):
        LLM(tmp_path)
