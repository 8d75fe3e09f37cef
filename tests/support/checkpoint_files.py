"""Owns how tests read, write and change the files of a checkpoint's folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

Weights = dict[str, Tensor]
_WEIGHTS = "model.safetensors"


def config_in(folder: Path) -> dict[str, Any]:
    """The fields of config.json."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


@contextmanager
def changed_json(folder: Path, name: str = "config.json") -> Iterator[dict[str, Any]]:
    """The object in a file, for the context to change; it is written back behind it."""
    path = folder / name
    fields = json.loads(path.read_text())
    yield fields
    path.write_text(json.dumps(fields))


def weights_in(folder: Path) -> Weights:
    """The tensors of a checkpoint whose weights are one file."""
    return load_file(folder / _WEIGHTS)


@contextmanager
def changed_weights(folder: Path) -> Iterator[Weights]:
    """The tensors of such a checkpoint, for the context to change; they are written back behind
    it."""
    weights = weights_in(folder)
    yield weights
    save_weights(folder, weights)


def save_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Write or replace the weights, as one file."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    save_file(tensors, folder / _WEIGHTS, {"format": "pt"})


def save_checkpoint(folder: Path, config: Any, weights: Mapping[str, Tensor]) -> Path:
    """Write or replace config.json and the weights. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_weights(folder, weights)
    return folder
