"""A small model that drafts for the tiny target, and prompts for it."""

from __future__ import annotations

from pathlib import Path

import tiny
import torch
from safetensors.torch import load_file, save_file

PROMPTS = ["abc" * times for times in range(1, 9)] + ["abcabcabc" * 7, "a{}\n" * 20]


def save_drafter(folder: Path) -> Path:
    """Another model of the tiny target's tokens, close to it so that some drafts are right."""
    tiny.save_target(folder)
    generator = torch.Generator().manual_seed(3)
    weights = {
        name: tensor + 0.02 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors")
    return folder
