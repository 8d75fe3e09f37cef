"""Random LoRA adapters as PEFT saves them, and models into which one was merged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from checkpoint_files import changed_weights, weights_in
from safetensors.torch import load_file, save_file
from torch import Tensor

WEIGHTS = "adapter_model.safetensors"
_NO_LINEAR = (".experts.", ".gate.weight", ".router.", "norm", ".kv_b_proj.")


def adapter(
    folder: Path,
    model: Path,
    seed: int = 0,
    rank: int = 4,
    takes: Callable[[str], bool] = lambda name: True,
    **fields: Any,
) -> Path:
    """An adapter for the linear layers of a model's folder. takes: whether it changes a map, by its
    full name; fields: of its configuration"""
    folder.mkdir(exist_ok=True)
    made = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}
    for name, weight in weights_in(model).items():
        if ".layers." not in name or weight.dim() != 2 or any(it in name for it in _NO_LINEAR):
            continue
        if takes(name := name.removesuffix(".weight")):
            num_out, num_in = weight.shape
            prefix = f"base_model.model.{name}"
            tensors[f"{prefix}.lora_A.weight"] = torch.randn(rank, num_in, generator=made) * 0.2
            tensors[f"{prefix}.lora_B.weight"] = torch.randn(num_out, rank, generator=made) * 0.2
    save_file(tensors, folder / WEIGHTS)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", **fields}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def merged(folder: Path, model: Path, of: Path, scale: Callable[[str], float]) -> Path:
    """The model with an adapter's products added to its weights. scale: that of each map"""
    shutil.copytree(model, folder)
    matrices = load_file(of / WEIGHTS)
    with changed_weights(folder) as weights:
        for name, b in matrices.items():
            if ".lora_B." in name:
                base = name.removeprefix("base_model.model.").removesuffix(".lora_B.weight")
                product = b @ matrices[name.replace(".lora_B.", ".lora_A.")]
                weights[f"{base}.weight"] = weights[f"{base}.weight"] + scale(base) * product
    return folder
