"""Where kernels are only compiled, some layers are left out: the others launch all kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from paging import Sequences
from random_models import CASES, random_model, tokens
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from specguide.layers import alikeness
from specguide.layers.alikeness import needed_to_rehearse, structure_of
from specguide.models import Decoder, config_of, decoder

NUM_LAYERS = 9
BY_LAYER = {"layer_types", "no_rope_layers"}
"""Settings with a value for each layer."""
EXPERTS = ("moe", "experts", "mixtral", "gpt-oss", "minimax", "deepseek", "next")
DENSE = [name for name in CASES if not any(experts in name for experts in EXPERTS)]
"""Experts without a GPU compute with the tokens that chose them, so shapes depend on weights."""


class Operations(TorchDispatchMode):
    """What is called, by the structure of its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        structures = tree_map(structure_of, (args, sorted((kwargs or {}).items())))
        self.called.add((func, str(structures)))
        return func(*args, **(kwargs or {}))


@torch.inference_mode()
def operations(model: Decoder, aux_layers: tuple[int, ...]) -> set[Any]:
    ids = tokens(24)
    sequences = Sequences(1, len(ids))
    context, cache = sequences.extend([len(ids)]), sequences.cache(model.config, model.dtype)
    with Operations() as operations:
        _, aux = model.forward(ids, context, cache, aux_layers)
    assert aux.shape == (len(ids), len(aux_layers) * model.config.hidden_size)
    return operations.called


@pytest.mark.parametrize("case", DENSE)
def test_a_rehearsal_calls_what_a_pass_does(
    case: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    family, settings = CASES[case]
    listed = {name: (settings[name] * 3)[:NUM_LAYERS] for name in BY_LAYER & settings.keys()}
    settings = settings | listed | {"num_hidden_layers": NUM_LAYERS}
    random_model(family, **settings).save_pretrained(tmp_path)
    model = Decoder.load(tmp_path)
    aux_layers = (1, 2, len(model.layers))
    operations(model, aux_layers)  # constants are made once
    expected = operations(model, aux_layers)
    monkeypatch.setattr(decoder, "is_rehearsing", lambda: True)
    monkeypatch.setattr(alikeness, "NUM_TIMED_WEIGHTS", 1)
    assert not all(model._rehearsed)
    assert operations(model, aux_layers) == expected


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, {0, 1, 2, 3, 11}),
        ({"architectures": ["Gemma3ForCausalLM"], "head_dim": 16}, {0, 1, 2, 3, 5, 11}),
        (
            {
                "architectures": ["Qwen3MoeForCausalLM"],
                "num_experts": 4,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 32,
                "mlp_only_layers": [0, 3],
            },
            {0, 1, 2, 3, 4, 5, 11},
        ),
    ],
    ids=["llama", "gemma3", "qwen3_moe"],
)
def test_a_few_layers_of_each_kind_are_needed(settings: dict[str, Any], needed: set[int]) -> None:
    sizes = {
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
    }
    layers = Decoder.skeleton(config_of(sizes | settings)).layers
    assert {i for i, is_needed in enumerate(needed_to_rehearse(layers)) if is_needed} == needed
