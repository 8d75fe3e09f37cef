"""Owns the way from checkpoint files to a model's memory: every tensor gets its place, and none may
be left over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

import torch

from specguide.errors import CheckpointError
from specguide.inputs.gguf_file import find_gguf
from specguide.inputs.json_fields import is_file, read_json, shown
from specguide.layers.destination import Destination
from specguide.layers.lm_head import Embedding
from specguide.models.read_ahead import Load, run_loads
from specguide.models.stacked_experts import unstacked
from specguide.models.stored_tensors import StoredTensor, open_weights, read

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLE_FILE = "pytorch_model.bin"
FLOAT_TYPES = {"F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16", "F8_E8M0"}
STORED_TYPES = {
    torch.int64: {"I64", "I32", "int64", "int32"},
    torch.int32: {"I32", "int32"},
    torch.int8: {"I8", "int8"},
    torch.uint8: {"U8", "uint8"},
    torch.float8_e4m3fn: {"F8_E4M3", "float8_e4m3fn"},
    torch.bool: {"BOOL", "bool", "I64", "int64", "I32", "int32", "I8", "int8", "U8", "uint8"},
}
NUM_NAMED = 5
_OF_QUANTIZED = (".qweight", ".weight_packed", ".weight_scale", ".weight_scale_inv", ".absmax")
_QUANTIZED = (
    "; some of them are quantized and config.json does not say so: add its 'quantization_config' "
    "(older folders have it in quantize_config.json or quant_config.json)"
)
_OUTPUT = "lm_head.weight"
_UNTIED = "; if the model uses its embeddings as its output matrix, add 'tie_word_embeddings': true"
_OF_MISTRAL = "consolidated"
"""Prefix of the names of files that contain the same weights once more, under Mistral's own
names."""


def weight_files(folder: Path, *, pickle: bool = False) -> tuple[Path, ...]:
    """The files that hold a checkpoint's weights: one safetensors file, the shards that its index
    names, all safetensors files if there is neither, or a GGUF file.

    pickle: accept pytorch_model.bin, too. Raises CheckpointError if there are none, or the index
            cannot be read.
    """
    if (gguf := find_gguf(folder)) is not None:
        return (gguf,)
    if (folder / INDEX_FILE).exists():
        shards = _shards(folder / INDEX_FILE)
        if not _is_left_behind(folder, shards):
            _check_shards(folder, shards)
            return tuple(folder / name for name in shards)
    for name in (SINGLE_FILE, PICKLE_FILE) if pickle else (SINGLE_FILE,):
        if is_file(folder / name):
            return (folder / name,)
    if without_index := sorted(filter(is_file, folder.glob("*.safetensors"))):
        others = [path for path in without_index if not path.name.startswith(_OF_MISTRAL)]
        return tuple(others or without_index)
    is_pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pth"))
    raise CheckpointError(
        f"{folder}: has neither {SINGLE_FILE} nor {INDEX_FILE}"
        + ("; transformers' save_pretrained makes them from pickled files" if is_pickled else "")
    )


def _is_left_behind(folder: Path, shards: list[str]) -> bool:
    """Whether an index is of files that one file has replaced: where transformers saves a model
    into a folder that holds shards, it removes these and leaves their index."""
    return is_file(folder / SINGLE_FILE) and not any(is_file(folder / name) for name in shards)


def _check_shards(folder: Path, shards: list[str]) -> None:
    """Raise CheckpointError for files that are not in the folder."""
    missing = [name for name in shards if not is_file(folder / name)]
    if missing:
        raise CheckpointError(
            f"{folder}: {INDEX_FILE} names files that are not in the folder: {_some(missing)}; "
            "download them again"
        )
    outside = [
        name
        for name in shards
        if not (folder / name).parent.resolve().is_relative_to(folder.resolve())
    ]
    if outside:
        raise CheckpointError(
            f"{folder}: {INDEX_FILE} names files outside the folder: {_some(outside)}"
        )


def _shards(path: Path) -> list[str]:
    """The files that an index names. A file may be a link to another place: a hub's cache consists
    of such links."""
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            f"{path}: cannot be read as an index of weights: 'weight_map' must be an object "
            f"from tensor names to files, found {shown(weight_map)}"
        )
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not shard.endswith(".safetensors"):
            raise CheckpointError(
                f"{path}: 'weight_map' has no safetensors file for {shown(name)}, found "
                f"{shown(shard)}"
            )
        if (
            "\\" in shard
            or PurePosixPath(shard).is_absolute()
            or ".." in PurePosixPath(shard).parts
        ):
            raise CheckpointError(
                f"{path}: 'weight_map' names a file outside the folder: {shown(shard)}"
            )
    return sorted(set(weight_map.values()))


def stored_names(files: tuple[Path, ...]) -> set[str]:
    """Names of all tensors in the files; raises CheckpointError if one cannot be read."""
    names: set[str] = set()
    for path in files:
        with open_weights(path) as stored:
            names |= stored.keys()
    return names


def check_weights(
    files: tuple[Path, ...],
    destinations: Mapping[str, Destination],
    *,
    ignored: Callable[[str], bool] = lambda name: False,
    rename: Callable[[str], str] = lambda name: name,
    stated_by: str = "config.json",
) -> None:
    """Compare the names, shapes and types in the files with the destinations, which may be on the
    meta device.

    ignored:   names that may be left over
    rename:    maps the file's names to those of `destinations`
    stated_by: where the shapes come from, for the message
    Raises CheckpointError that names what is missing, left over, duplicate, or of the wrong shape
    or type.
    """

    def is_known(name: str) -> bool:
        return rename(name) in destinations

    found: dict[str, StoredTensor] = {}
    twice: list[str] = []
    for path in files:
        with open_weights(path) as stored:
            for name, tensor in unstacked(stored, is_known):
                twice += [name] if rename(name) in found else []
                found[rename(name)] = tensor
    if problems := _problems(found, destinations, twice, ignored):
        raise CheckpointError(f"{files[0].parent}: the weights do not fit {stated_by}; {problems}")


def load_weights(
    files: tuple[Path, ...],
    destinations: Mapping[str, Destination],
    *,
    rename: Callable[[str], str] = lambda name: name,
) -> None:
    """Fill every destination from the files, which must have passed `check_weights`. Besides the
    model this needs at most as much memory as the largest file has bytes.

    rename: maps the file's names to those of `destinations`
    Raises CheckpointError for values that a destination refuses.
    """

    def is_known(name: str) -> bool:
        return rename(name) in destinations

    with ExitStack() as opened:
        loads = [
            Load(f"{path}: {name}", tensor, destinations[rename(name)])
            for path in files
            for name, tensor in unstacked(opened.enter_context(open_weights(path)), is_known)
            if is_known(name)
        ]
        run_loads(loads, max(path.stat().st_size for path in files))


def check_tied(
    files: tuple[Path, ...],
    embedding: Embedding,
    *,
    rename: Callable[[str], str] = lambda name: name,
) -> None:
    """Raise CheckpointError if a tied checkpoint has an output matrix that differs from the loaded
    embeddings; it may contain the same matrix twice."""
    matrix = embedding.weight
    for path in files:
        with open_weights(path) as stored:
            for name, tensor in stored.items():
                if rename(name) == _OUTPUT and not torch.equal(read(tensor).to(matrix), matrix):
                    raise CheckpointError(
                        f"{path}: config.json has 'tie_word_embeddings': true, but {name} is not "
                        f"equal to {embedding.name}"
                    )


def _problems(
    found: Mapping[str, StoredTensor],
    destinations: Mapping[str, Destination],
    twice: list[str],
    ignored: Callable[[str], bool],
) -> str:
    """What is wrong with the weights that were found, as one sentence; "" if nothing is."""
    missing = [
        name for name, it in destinations.items() if name not in found and not it.is_optional
    ]
    left_over = [name for name in found if name not in destinations and not ignored(name)]
    misshapen = [
        f"{name} (expected {list(destination.shape)}, found {list(found[name].shape)})"
        for name, destination in destinations.items()
        if name in found and found[name].shape not in (destination.shape, *destination.other_shapes)
    ]
    mistyped = [
        f"{name} ({found[name].dtype})"
        for name, destination in destinations.items()
        if name in found
        and found[name].dtype
        not in STORED_TYPES.get(destination.stored_dtype or destination.tensor.dtype, FLOAT_TYPES)
    ]
    problems = [
        f"{problem}: {_some(names)}"
        for problem, names in (
            ("missing weights", missing),
            ("weights that the model does not have", left_over),
            ("weights of the wrong shape", misshapen),
            ("weights of a type that cannot be converted", mistyped),
            ("weights that are there twice", twice),
        )
        if names
    ]
    hint = _QUANTIZED if any(name.endswith(_OF_QUANTIZED) for name in left_over) else ""
    hint += _UNTIED if missing == [_OUTPUT] else ""
    return "; ".join(problems) + hint


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:NUM_NAMED])
    return shown if len(names) <= NUM_NAMED else f"{shown} and {len(names) - NUM_NAMED} more"
