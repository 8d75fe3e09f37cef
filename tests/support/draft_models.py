"""A small model that drafts for the tiny target, and prompts for it."""

from __future__ import annotations

from pathlib import Path

import tiny
import torch
from checkpoint_files import changed_weights

PROMPTS = ["abc" * times for times in range(1, 9)] + ["abcabcabc" * 7, "a{}\n" * 20]


def save_drafter(folder: Path) -> Path:
    """Another model of the tiny target's tokens, close to it so that some drafts are right."""
    tiny.save_target(folder)
    generator = torch.Generator().manual_seed(3)
    with changed_weights(folder) as weights:
        for tensor in weights.values():
            tensor += 0.02 * torch.randn(tensor.shape, generator=generator)
    return folder
