"""How a checkpoint gets into memory: from several threads, with little beside the model, and what
goes wrong on the way has a name."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.layers.destination import Destination, finite
from specguide.models import read_ahead, stored_tensors
from specguide.models.stored_tensors import open_weights
from specguide.models.weights import check_weights, load_weights


def destinations_of(weights: dict[str, Tensor]) -> dict[str, Destination]:
    return {name: Destination.of(torch.empty_like(it)) for name, it in weights.items()}


@pytest.mark.parametrize("chunk_bytes", [7, 1 << 23])
def test_every_kind_of_tensor_arrives(
    chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tensors, "CHUNK_BYTES", chunk_bytes)
    weights = {
        "scalar": torch.tensor(3.0),
        "none": torch.empty(0, 4),
        "bfloat16": torch.randn(5, 7).bfloat16(),
        "float8": torch.randn(3, 9).to(torch.float8_e4m3fn),
        "powers": torch.tensor([0.25, 1.0, 8.0]).to(torch.float8_e8m0fnu),
        "bytes": torch.arange(50, dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
        "transposed": torch.randn(6, 4),
        "converted": torch.randn(4, 4).half(),
    }
    path = tmp_path / "model.safetensors"
    save_file(weights, path)
    destinations = destinations_of(weights)
    destinations["transposed"] = Destination.of(torch.empty(4, 6).t())
    doubled = Destination(torch.empty(4, 4), (4, 4), lambda stored: stored.float() * 2)
    scales = Destination(torch.empty(3), (3,), finite)
    others = {"converted": doubled, "powers": scales}
    check_weights((path,), destinations | others)
    load_weights((path,), destinations | others)
    for name in weights.keys() - others.keys():
        assert torch.equal(destinations[name].tensor, weights[name]), name
    assert torch.equal(doubled.tensor, weights["converted"].float() * 2)
    assert scales.tensor.tolist() == [0.25, 1.0, 8.0]


class Beside:
    """Counts the bytes that lie elsewhere than in the model while it is loaded."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.num_bytes = self.most = 0
        unpatched = Destination.memory

        def memory(destination: Destination, *stored: Any) -> Tensor:
            found = unpatched(destination, *stored)
            if found is not destination.tensor:
                self.num_bytes += found.nbytes
                self.most = max(self.most, self.num_bytes)
                weakref.finalize(found, self._free, found.nbytes)
            return found

        patch.setattr(Destination, "memory", memory)

    def _free(self, num_bytes: int) -> None:
        self.num_bytes -= num_bytes


@pytest.mark.parametrize(("dtype", "most"), [(torch.bfloat16, 0), (torch.float32, 6000)])
def test_memory_is_never_more_than_the_model_and_one_shard(
    dtype: torch.dtype, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that stay as they are go straight to their places."""
    files = []
    destinations = {}
    for file in range(6):
        names = [f"{file}.{tensor}" for tensor in range(3)]
        files.append(tmp_path / f"{file}.safetensors")
        save_file({name: torch.ones(1000).bfloat16() for name in names}, files[-1])
        destinations |= {name: Destination.of(torch.empty(1000, dtype=dtype)) for name in names}
    beside = Beside(monkeypatch)
    load_weights(tuple(files), destinations)
    assert all(bool((it.tensor == 1).all()) for it in destinations.values())
    assert beside.most == most
    assert beside.num_bytes == 0


def test_a_tensor_larger_than_any_other_is_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "MOST_BYTES_AHEAD", 1000)
    sizes = {"a": 300, "b": 300, "c": 2000, "d": 300}
    path = tmp_path / "model.safetensors"
    save_file({name: torch.ones(size, dtype=torch.uint8) for name, size in sizes.items()}, path)
    beside = Beside(monkeypatch)
    load_weights(
        (path,),
        {
            name: Destination(torch.empty(size), (size,), stored_dtype=torch.uint8)
            for name, size in sizes.items()
        },
    )
    assert beside.most == 2000


def test_a_file_that_shrinks_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"x": torch.ones(1000)}, path)
    with open_weights(path) as stored:
        os.truncate(path, 2000)
        with pytest.raises(CheckpointError, match=r"model\.safetensors: became shorter"):
            stored["x"].read_into(torch.empty(1000))


def test_an_error_ends_a_load_at_once(tmp_path: Path) -> None:
    weights = {f"{number:02}": torch.ones(10) for number in range(40)}
    path = tmp_path / "model.safetensors"
    save_file(weights, path)
    taken: list[str] = []

    def take(name: str) -> Callable[[Tensor], Tensor]:
        def convert(stored: Tensor) -> Tensor:
            taken.append(name)
            if name == "07":
                raise CheckpointError("is odd")
            return stored

        return convert

    destinations = {name: Destination(torch.empty(10), (10,), take(name)) for name in weights}
    with pytest.raises(CheckpointError, match=r"model\.safetensors: 07 is odd"):
        load_weights((path,), destinations)
    assert taken == sorted(weights)[:8], "in the order of the file, one at a time"


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read: "):
        check_weights((tmp_path / "model.safetensors",), {})
