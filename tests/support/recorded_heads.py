"""Draft heads whose draft logits were recorded from the code that publishes such heads; see
`record_draft_heads.py`. Weights and inputs are made from names, so the record holds logits alone.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from checkpoint_files import save_checkpoint
from torch import Tensor

RECORD = Path(__file__).parent.parent / "models" / "recorded_draft_heads.json"
LENGTH, NUM_STEPS = 9, 4
HIDDEN, VOCAB_SIZE, DRAFT_VOCAB_SIZE, NUM_AUX_LAYERS, MASK_TOKEN = 16, 40, 24, 3, 7


def numbers(name: str, shape: tuple[int, ...], scale: float = 0.4) -> Tensor:
    """Numbers that look random and are the same everywhere, float32."""
    angles = torch.arange(math.prod(shape), dtype=torch.float64) * 12.9898 + crc32(name.encode())
    parts = (angles % 1000).sin() * 43758.5453
    return ((parts - parts.floor()) * 2 - 1).mul(scale).float().reshape(shape)


def weights(shapes: dict[str, list[int]]) -> dict[str, Tensor]:
    """Random tensors of a head: norms around 1, every second token in the draft vocabulary."""
    found = {}
    target_ids = torch.arange(DRAFT_VOCAB_SIZE) + torch.arange(DRAFT_VOCAB_SIZE).clamp(
        max=VOCAB_SIZE - DRAFT_VOCAB_SIZE
    )
    for name, shape in shapes.items():
        if name == "d2t":
            found[name] = target_ids - torch.arange(DRAFT_VOCAB_SIZE)
        elif name == "t2d":
            found[name] = torch.isin(torch.arange(VOCAB_SIZE), target_ids)
        elif "norm" in name:
            found[name] = 1 + numbers(name, tuple(shape))
        else:
            found[name] = numbers(name, tuple(shape))
    return found


def inputs() -> tuple[Tensor, Tensor]:
    """The token after each position int64 [LENGTH + NUM_STEPS - 1], the last ones drafted; and the
    target's aux hidden states [LENGTH, NUM_AUX_LAYERS · HIDDEN]."""
    ids = (numbers("ids", (LENGTH + NUM_STEPS - 1,), 1000).abs().long()) % VOCAB_SIZE
    return ids, numbers("aux hidden states", (LENGTH, NUM_AUX_LAYERS * HIDDEN), 1.5)


def load_record() -> dict[str, dict[str, Any]]:
    """By the name of the case: `version` of the code, `config` and `shapes` as it wrote them, and
    `logits` [NUM_STEPS, drafts], nan where a step was not recorded."""
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())
    return record


def save_case(folder: Path, case: dict[str, Any]) -> Path:
    """The head as a folder."""
    return save_checkpoint(folder, case["config"], weights(case["shapes"]))
