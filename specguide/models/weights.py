"""Owns the way from checkpoint files to the memory of a model: every tensor placed, none left over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.layers.attention import Attention
from specguide.layers.linear import Linear
from specguide.layers.mlp import GatedMlp

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLE_FILE = "pytorch_model.bin"
FLOAT_TYPES = {"F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16"}
STORED_TYPES = {torch.int64: {"I64", "I32", "int64", "int32"}, torch.bool: {"BOOL", "bool"}}
NUM_NAMED = 5


@dataclass(frozen=True, eq=False)
class Destination:
    """Where a checkpoint's tensor goes.

    tensor: a view of the model's memory; the checkpoint's values are converted to its dtype and broadcast to it
    shape:  the shape that the checkpoint's tensor must have
    """

    tensor: Tensor
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> Destination:
        """A tensor stored as it is."""
        return cls(tensor, tuple(tensor.shape))


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a checkpoint file, not read yet."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Tensor]


def weight_files(folder: Path, *, pickle: bool = False) -> tuple[Path, ...]:
    """The files that hold a folder's weights: one safetensors file, or the shards that its index names.

    pickle: accept pytorch_model.bin too. Raises CheckpointError when there are none, or the index cannot be read.
    """
    if (folder / INDEX_FILE).is_file():
        try:
            shards = sorted(set(json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise CheckpointError(f"{folder / INDEX_FILE}: cannot be read as an index of weights: {error!r}") from None
        missing = [name for name in shards if not (folder / name).is_file()]
        if missing:
            raise CheckpointError(f"{folder}: {INDEX_FILE} names files that are not there: {_some(missing)}")
        return tuple(folder / name for name in shards)
    for name in (SINGLE_FILE, PICKLE_FILE) if pickle else (SINGLE_FILE,):
        if (folder / name).is_file():
            return (folder / name,)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: is not a folder")
    raise CheckpointError(f"{folder}: holds no {SINGLE_FILE} and no {INDEX_FILE}")


@contextmanager
def open_weights(path: Path) -> Iterator[dict[str, StoredTensor]]:
    """The tensors of one file by name, for as long as the context lasts; raises CheckpointError.

    A tensor is read when asked for, so that no more than one of them is held beside the model.
    """
    if path.suffix == ".safetensors":
        try:
            file = safe_open(path, framework="pt", device="cpu")
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: cannot be read as safetensors (truncated or damaged?): {error}") from None
        with file:
            yield {name: _stored_slice(file, name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    else:
        yield _stored_pickle(path)


def stored_names(files: tuple[Path, ...]) -> set[str]:
    """Names of all tensors in the files; raises CheckpointError when one cannot be read."""
    names: set[str] = set()
    for path in files:
        with open_weights(path) as stored:
            names |= stored.keys()
    return names


def load_weights(files: tuple[Path, ...], destinations: Mapping[str, Destination], *,
                 ignored: Callable[[str], bool] = lambda name: False,
                 rename: Callable[[str], str] = lambda name: name) -> None:
    """Fill every destination from the files, tensor by tensor.

    ignored: names that may be left over;  rename: from the file's names to those of `destinations`
    Nothing is read before all names and shapes have been found right. Raises CheckpointError that names what is
    missing, left over, there twice, or of the wrong shape or type.
    """
    found: dict[str, StoredTensor] = {}
    twice: list[str] = []
    for path in files:
        with open_weights(path) as stored:
            for name, tensor in stored.items():
                twice += [name] if rename(name) in found else []
                found[rename(name)] = tensor
    _check(files[0].parent, found, destinations, twice, ignored)
    with torch.no_grad():
        for path in files:
            with open_weights(path) as stored:
                for name, tensor in stored.items():
                    if rename(name) in destinations:
                        destinations[rename(name)].tensor.copy_(tensor.read())


def linear_destinations(prefix: str, linear: Linear, parts: Mapping[str, int]) -> dict[str, Destination]:
    """Of a fused linear map: `parts` are the names of its row blocks in the checkpoint, with their heights."""
    destinations = {}
    row = 0
    for name, height in parts.items():
        destinations[f"{prefix}{name}.weight"] = Destination.of(linear.weight[row:row + height])
        if linear.bias is not None:
            destinations[f"{prefix}{name}.bias"] = Destination.of(linear.bias[row:row + height])
        row += height
    assert row == linear.weight.shape[0]
    return destinations


def attention_destinations(prefix: str, attention: Attention) -> dict[str, Destination]:
    """q_proj, k_proj and v_proj are fused; q_norm and k_norm are one weight each for all heads."""
    num_heads, kv_size = attention.num_heads, attention.num_kv_heads * attention.head_dim
    fused = {"q_proj": num_heads * attention.head_dim, "k_proj": kv_size, "v_proj": kv_size}
    destinations = linear_destinations(prefix, attention.qkv, fused)
    destinations |= linear_destinations(prefix, attention.out, {"o_proj": attention.out.weight.shape[0]})
    if attention.qk_norm is not None:
        shape = (attention.head_dim,)
        destinations[f"{prefix}q_norm.weight"] = Destination(attention.qk_norm.weight[:num_heads], shape)
        destinations[f"{prefix}k_norm.weight"] = Destination(attention.qk_norm.weight[num_heads:], shape)
    return destinations


def mlp_destinations(prefix: str, mlp: GatedMlp) -> dict[str, Destination]:
    """gate_proj and up_proj are fused."""
    hidden_size, intermediate_size = mlp.down.weight.shape
    fused = {"gate_proj": intermediate_size, "up_proj": intermediate_size}
    return (linear_destinations(prefix, mlp.gate_up, fused)
            | linear_destinations(prefix, mlp.down, {"down_proj": hidden_size}))


def _stored_slice(file: Any, name: str) -> StoredTensor:
    tensor_slice = file.get_slice(name)
    return StoredTensor(tuple(tensor_slice.get_shape()), tensor_slice.get_dtype(), lambda: file.get_tensor(name))


def _stored_pickle(path: Path) -> dict[str, StoredTensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return {name: StoredTensor(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.clone)
                for name, tensor in state.items()}
    except (OSError, RuntimeError, ValueError, AttributeError, EOFError, UnpicklingError) as error:
        raise CheckpointError(f"{path}: cannot be read as a file of plain tensors: {error}") from None


def _check(folder: Path, found: Mapping[str, StoredTensor], destinations: Mapping[str, Destination], twice: list[str],
           ignored: Callable[[str], bool]) -> None:
    missing = [name for name in destinations if name not in found]
    left_over = [name for name in found if name not in destinations and not ignored(name)]
    misshapen = [f"{name} (expected {list(destination.shape)}, found {list(found[name].shape)})"
                 for name, destination in destinations.items()
                 if name in found and found[name].shape != destination.shape]
    mistyped = [f"{name} ({found[name].dtype})" for name, destination in destinations.items()
                if name in found
                and found[name].dtype not in STORED_TYPES.get(destination.tensor.dtype, FLOAT_TYPES)]
    problems = [f"{problem}: {_some(names)}" for problem, names in (
        ("missing weights", missing), ("weights left over", left_over), ("weights of the wrong shape", misshapen),
        ("weights of a type that does not convert", mistyped), ("weights there twice", twice)) if names]
    if problems:
        raise CheckpointError(f"{folder}: the weights do not fit config.json; " + "; ".join(problems))


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:NUM_NAMED])
    return shown if len(names) <= NUM_NAMED else f"{shown} and {len(names) - NUM_NAMED} more"
