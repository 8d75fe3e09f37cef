"""A family from the tests alone: layers whose attention and MLP read the same norm, and an MLP
without a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from checkpoint_files import save_checkpoint
from random_requests import cases
from tiny_engine import told
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from specguide import LLM, SamplingParams, SpecConfig
from specguide.layers.attention import Attention, AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.norm import RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.models import FAMILIES, ModelConfig
from specguide.models.family import Family
from specguide.models.windows import no_windows


@dataclass(frozen=True, eq=False)
class ToyMlp:
    """down(relu(up(x))²)."""

    up: Projection
    down: Projection

    def __call__(self, x: Tensor) -> PartialSums:
        return self.down.forward_parts(self.up.forward(x).relu().square())

    def destinations(self) -> dict[str, Destination]:
        return merged(self.up, self.down)


@dataclass(frozen=True, eq=False)
class ToyLayer:
    """hidden + attention(norm(hidden)) + mlp(norm(hidden))."""

    input_norm: RmsNorm
    attention: Attention
    mlp: ToyMlp

    def __call__(
        self,
        hidden: Tensor,
        normed: Tensor,
        next_norm: RmsNorm,
        state: AttentionState,
    ) -> tuple[Tensor, Tensor]:
        attended = self.attention(normed, state)
        inner = self.mlp(state.wanted(normed))
        both = PartialSums(torch.cat((attended.parts, inner.parts)))
        return next_norm.add(state.wanted(hidden), both)

    def destinations(self) -> dict[str, Destination]:
        return merged(self.input_norm, self.attention, self.mlp)


def read(fields: Mapping[str, Any]) -> ModelConfig:
    return ModelConfig.from_fields(fields, sliding_windows=no_windows(fields))


def build_layer(config: ModelConfig, index: int, place: Placement) -> ToyLayer:
    size, inner = config.hidden_size, config.intermediate_size
    mlp = place.within("mlp")
    return ToyLayer(
        RmsNorm.create(place, "input_layernorm", size, config.norm),
        Attention.create(place.within("self_attn"), size, size, config.attention(index)),
        ToyMlp(
            Projection.create(mlp, size, {"up_proj": inner}),
            Projection.create(mlp, inner, {"down_proj": size}),
        ),
    )


TOY = Family(("ToyForCausalLM",), read, build_layer)


class SlowMlp(nn.Module):
    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.up_proj(x).relu() ** 2)


class SlowLayer(nn.Module):
    """A layer of transformers' Llama, put together in another way."""

    def __init__(self, layer: nn.Module, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = layer.input_layernorm
        self.self_attn = layer.self_attn
        self.mlp = SlowMlp(config.hidden_size, config.intermediate_size)

    def forward(self, hidden: Tensor, **others: Any) -> Tensor:
        normed = self.input_layernorm(hidden)
        return hidden + self.self_attn(normed, **others)[0] + self.mlp(normed)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaForCausalLM, Path]:
    """A slow model of the family, and its folder."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**tiny.SETTINGS)).eval()
    layers = [SlowLayer(layer, model.config) for layer in model.model.layers]
    model.model.layers = nn.ModuleList(layers)
    folder = tmp_path_factory.mktemp("toy")
    config = model.config.to_dict() | {"architectures": ["ToyForCausalLM"]}
    save_checkpoint(folder, config, model.state_dict())
    tiny.save_tokenizer(folder)
    return model, folder


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "ToyForCausalLM", TOY)


def test_tokens_are_those_of_the_slow_model(toy: tuple[LlamaForCausalLM, Path]) -> None:
    model, folder = toy
    params = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
    output = LLM(folder, spec=None).generate([list(b"abc")], params)[0]
    ids = torch.tensor([[*b"abc", *output.token_ids]])
    with torch.inference_mode():
        expected = model(ids, use_cache=False).logits[0, 2:-1].argmax(-1)
    assert list(output.token_ids) == expected.tolist()
    assert len(set(output.token_ids)) > 5


def test_guides_and_draft_heads_work_with_it(
    toy: tuple[LlamaForCausalLM, Path], folders: tuple[Path, Path]
) -> None:
    _, folder = toy
    prompts, all_params = cases(5, 9, temperature=0.0)
    plain, drafted = (
        LLM(folder, spec=spec).generate(prompts, all_params)
        for spec in (None, SpecConfig("eagle3", folders[1], 3))
    )
    assert told(drafted) == told(plain)
    assert any(out.metrics.acceptance_length > 1.1 for out in drafted)
