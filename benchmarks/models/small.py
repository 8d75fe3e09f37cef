"""Owns a small model that is made of parts of the shipped one."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from specguide.engine.setup.target_folder import SHIPPED_MODEL

_NUM_TOKENS = 512
"""Size of its vocabulary."""


def save_small(folder: Path, num_layers: int = 1) -> None:
    """Save the shipped model's first layers, with the first tokens of its vocabulary, of which all
    other tokens are merged."""
    shutil.copytree(SHIPPED_MODEL / "target", folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config |= {"num_hidden_layers": num_layers, "vocab_size": _NUM_TOKENS}
    (folder / "config.json").write_text(json.dumps(config))
    kept = {
        name: tensor[:_NUM_TOKENS].clone() if "embed_tokens" in name else tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if not (layer := re.match(r"model\.layers\.(\d+)\.", name)) or int(layer[1]) < num_layers
    }
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    model = tokenizer["model"]
    model["vocab"] = {text: i for text, i in model["vocab"].items() if i < _NUM_TOKENS}
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
