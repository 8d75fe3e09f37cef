"""Random heads for the tiny target, in the layouts that are published beside EAGLE-3's first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny
import torch
from checkpoint_files import config_in, save_checkpoint, weights_in
from torch import Tensor

MASK_TOKEN = 7
LAYOUTS = ("EAGLE-3.1", "two layers", "no last norm", "P-EAGLE")


def save_layout(folder: Path, layout: str) -> Path:
    """A head of one of LAYOUTS, with a pruned vocabulary."""
    tiny.save_head(folder)
    fields, weights, random = config_in(folder), weights_in(folder), _random_tensors()
    if layout == "EAGLE-3.1":
        fields |= dict(fc_norm=True, norm_output=True)
        weights |= {f"fc_norm.{index}.weight": 1 + random(tiny.HIDDEN) for index in range(3)}
    if layout == "no last norm":
        fields["eagle_config"] = {"use_last_layernorm": False}
        del weights["norm.weight"]
        weights["fc.bias"] = random(tiny.HIDDEN)
    if layout in ("two layers", "P-EAGLE"):
        weights |= _second_layer(weights, random)
    if layout == "P-EAGLE":
        fields |= dict(mask_token_id=MASK_TOKEN, parallel_drafting=True)
        weights["mask_hidden"] = random(1, 1, 3 * tiny.HIDDEN)
    return save_checkpoint(folder, fields, weights)


def _second_layer(weights: dict[str, Tensor], random: Any) -> dict[str, Tensor]:
    """With norms of queries and keys in both, as Qwen3 has them."""
    found = {
        name.replace("midlayer.", "layers.1."): random(*tensor.shape)
        for name, tensor in weights.items()
        if name.startswith("midlayer.") and "hidden_norm" not in name
    }
    for name in found:
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            found[name] = found[name][:, : tiny.HIDDEN].contiguous()
    norms = {
        f"{layer}.self_attn.{name}_norm.weight": 1 + random(8)
        for layer in ("midlayer", "layers.1")
        for name in "qk"
    }
    return found | norms


def _random_tensors() -> Any:
    generator = torch.Generator().manual_seed(5)
    return lambda *shape: torch.randn(*shape, generator=generator) * 0.3
