"""Owns StoredTensor: a tensor in a checkpoint's file, and how its bytes get to their
destination."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import safe_open
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.inputs.gguf_file import SUFFIX as GGUF_SUFFIX
from specguide.inputs.json_fields import check_fetched
from specguide.models.gguf import gguf_tensors

CHUNK_BYTES = 8 << 20
"""Maximum bytes that are read at once: few enough to be still in the processor's cache when they
are copied to a GPU."""

_TORCH_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class StoredTensor(Protocol):
    """A tensor in a checkpoint's file, not read yet.

    dtype:       name of its dtype in this kind of file
    torch_dtype: its dtype in torch; None: torch has no such dtype
    num_bytes:   its bytes in the file
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    @property
    def torch_dtype(self) -> torch.dtype | None: ...

    @property
    def num_bytes(self) -> int: ...

    def read_into(self, memory: Tensor) -> None:
        """Read it into contiguous memory of its shape and dtype, on any device; any thread may call
        this. Raises CheckpointError."""


def read(stored: StoredTensor) -> Tensor:
    """Read a tensor into new memory on the CPU."""
    memory = torch.empty(stored.shape, dtype=stored.torch_dtype)
    stored.read_into(memory)
    return memory


@contextmanager
def open_weights(path: Path) -> Iterator[dict[str, StoredTensor]]:
    """The tensors of one file by name, in the order of the file; they are valid inside the context.
    Raises CheckpointError."""
    if path.suffix == ".safetensors":
        with _opened(path) as file:
            yield _stored_slices(path, file.fileno())
    elif path.suffix == GGUF_SUFFIX:
        yield dict(gguf_tensors(path))
    else:
        yield _stored_pickle(path)


def _opened(path: Path) -> FileIO:
    try:
        check_fetched(path)
        return FileIO(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from None


@dataclass(frozen=True)
class StoredSlice:
    """A tensor in a safetensors file. offset: position of its first byte"""

    path: Path
    file: int
    offset: int
    num_bytes: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def torch_dtype(self) -> torch.dtype | None:
        return _TORCH_DTYPES.get(self.dtype)

    def read_into(self, memory: Tensor) -> None:
        bytes_ = memory.view(-1).view(torch.uint8)
        if memory.device.type == "cpu":
            self._read(bytes_, 0)
            return
        # A copy from pageable memory would pass through a buffer of the driver's anyway, and all
        # threads would wait for that one.
        staging = torch.empty(CHUNK_BYTES, dtype=torch.uint8, pin_memory=True)
        for start in range(0, self.num_bytes, CHUNK_BYTES):
            chunk = bytes_[start : start + CHUNK_BYTES]
            self._read(staging[: len(chunk)], start)
            chunk.copy_(staging[: len(chunk)], non_blocking=True)
            torch.cuda.current_stream(memory.device).record_event().synchronize()

    def rows(self, index: int, start: int, stop: int) -> StoredSlice:
        """Of three dimensions, rows `start` … `stop` - 1 of matrix `index`."""
        num_matrices, num_rows, num_columns = self.shape
        row_bytes = self.num_bytes // (num_matrices * num_rows)
        return replace(
            self,
            offset=self.offset + (index * num_rows + start) * row_bytes,
            num_bytes=(stop - start) * row_bytes,
            shape=(stop - start, num_columns),
        )

    def _read(self, memory: Tensor, start: int) -> None:
        """Read the bytes from `start` on, as many as fit into `memory`; other threads run
        meanwhile."""
        view = memory.numpy().data
        done = 0
        while done < len(view):
            rest = view[done : done + CHUNK_BYTES]
            try:
                num_read = os.preadv(self.file, [rest], self.offset + start + done)
            except OSError as error:
                raise CheckpointError(f"{self.path}: cannot be read: {error}") from None
            if num_read == 0:
                raise CheckpointError(f"{self.path}: became shorter while it was read")
            done += num_read


def _stored_slices(path: Path, file: int) -> dict[str, StoredTensor]:
    """The tensors of a safetensors file by name. safetensors itself checks the header, and that the
    tensors fill the file without gaps."""
    try:
        with safe_open(path, framework="pt", device="cpu") as checked:
            names = set(checked.keys())
        header_len = int.from_bytes(os.pread(file, 8, 0), "little")
        header = json.loads(os.pread(file, header_len, 8))
        slices = [(name, header[name]) for name in names]
    except Exception as error:  # a damaged header makes it raise other errors than its own, too
        raise CheckpointError(
            f"{path}: cannot be read as safetensors (truncated or damaged?): {error}"
        ) from None
    slices.sort(key=lambda item: item[1]["data_offsets"])
    return {name: _slice(path, file, 8 + header_len, stated) for name, stated in slices}


def _slice(path: Path, file: int, header_end: int, stated: dict[str, Any]) -> StoredSlice:
    start, end = stated["data_offsets"]
    return StoredSlice(
        path, file, header_end + start, end - start, tuple(stated["shape"]), stated["dtype"]
    )


@dataclass(frozen=True, eq=False)
class UnpickledTensor:
    """A tensor of a file that torch maps into memory."""

    tensor: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> str:
        return str(self.torch_dtype).removeprefix("torch.")

    @property
    def torch_dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def num_bytes(self) -> int:
        return self.tensor.nbytes

    def read_into(self, memory: Tensor) -> None:
        memory.copy_(self.tensor)


def _stored_pickle(path: Path) -> dict[str, StoredTensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return {str(name): _unpickled(tensor) for name, tensor in state.items()}
    except Exception as error:  # a damaged file can make the unpickler raise anything
        raise CheckpointError(
            f"{path}: cannot be read as a pickled file of tensors: {error}"
        ) from None


def _unpickled(tensor: Tensor) -> UnpickledTensor:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise ValueError(
            f"has a sparse or quantized tensor, or one of a device: {tensor.layout}, "
            f"{tensor.dtype}, {tensor.device}"
        )
    return UnpickledTensor(tensor)
