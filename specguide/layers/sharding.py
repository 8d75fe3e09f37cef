"""Owns how a checkpoint's tensors are cut into the shards that ranks hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.layers.destination import Destination
from specguide.parallel import Ranks

Cut = Literal["outputs", "inputs"]
"""Which features of a projection are divided among ranks: its outputs (column parallel), or its
inputs, where the ranks' products have to be summed (row parallel)."""


@dataclass(frozen=True)
class Section:
    """Consecutive output features, and the ranks among which they are cut."""

    size: int
    ranks: Ranks

    def share(self, what: str) -> int:
        """Number of features on each rank. Raises InvalidParams like Ranks.share."""
        return self.ranks.share(self.size, what)


def shards(
    whole: Mapping[str, Destination], parts: Mapping[str, Destination], ranks: Ranks
) -> dict[str, Destination]:
    """Where a checkpoint's tensors go if this rank keeps a part of each.

    whole: where they would go on a single rank, which tells their shapes; it has no memory
    parts: where their parts go, by the same names

    A tensor is cut along each dimension in which its part is smaller. If a matrix is cut by inputs,
    the caller has to handle its bias, which is not cut. Raises CheckpointError for a tensor that
    cannot be cut.
    """
    return {name: _shard(name, whole[name], part, ranks) for name, part in parts.items()}


def shards_of_sections(
    whole: Mapping[str, Destination], parts: Mapping[str, Destination], sections: Sequence[Section]
) -> dict[str, Destination]:
    """Like `shards`, for a map whose output features consist of `sections`, such as gate and up:
    each rank keeps its part of each section."""
    if len(sections) == 1:
        return shards(whole, parts, sections[0].ranks)
    return {
        name: _shard_of_sections(name, whole[name], part, sections) for name, part in parts.items()
    }


def _shard_of_sections(
    name: str, whole: Destination, part: Destination, sections: Sequence[Section]
) -> Destination:
    if part.tensor.numel() == 0:
        return _checked_whole(whole, part)
    shapes = (whole.shape, *whole.other_shapes)
    wanted = dict(zip(shapes, (part.shape, *part.other_shapes), strict=True))
    if all(shape == size for shape, size in wanted.items()):
        return part
    for shape, sizes in wanted.items():
        for there, size in zip(shape, sizes, strict=True):
            if there != size:
                _check_sections(name, there, size, sections)

    def convert(stored: Tensor) -> Tensor:
        for dim, size in enumerate(wanted[tuple(stored.shape)]):
            if size != stored.shape[dim]:
                stored = _chunks_of_sections(stored, dim, sections)
        return stored if part.convert is None else part.convert(stored)

    return replace(part, shape=whole.shape, other_shapes=whole.other_shapes, convert=convert)


def _chunks_of_sections(stored: Tensor, dim: int, sections: Sequence[Section]) -> Tensor:
    """A rank's part of each section, one after another."""
    num_each = sum(it.size for it in sections) // stored.shape[dim]
    whole = stored.split([it.size // num_each for it in sections], dim)
    parts = zip(whole, sections, strict=True)
    return torch.cat([it.chunk(of.ranks.size, dim)[of.ranks.rank] for it, of in parts], dim)


def added_once(whole: Destination, part: Destination, ranks: Ranks) -> Destination:
    """Where a bias goes that is added after a sum over ranks: rank 0 adds it, and the others add
    0."""
    if ranks.rank == 0:
        return part
    return replace(whole, tensor=part.tensor, convert=torch.zeros_like)


def _shard(name: str, whole: Destination, part: Destination, ranks: Ranks) -> Destination:
    if part.tensor.numel() == 0:
        return _checked_whole(whole, part)
    shapes = dict(
        zip(
            (whole.shape, *whole.other_shapes),
            (part.shape, *part.other_shapes),
            strict=True,
        )
    )
    for shape, wanted in shapes.items():
        _check(name, shape, wanted, ranks)
    if all(shape == wanted for shape, wanted in shapes.items()):
        return part

    def convert(stored: Tensor) -> Tensor:
        wanted = shapes[tuple(stored.shape)]
        for dim, size in enumerate(wanted):
            if size != stored.shape[dim]:
                stored = stored.narrow(dim, ranks.rank * size, size)
        return stored if part.convert is None else part.convert(stored)

    return replace(part, shape=whole.shape, other_shapes=whole.other_shapes, convert=convert)


def _checked_whole(whole: Destination, part: Destination) -> Destination:
    """The destination of a tensor that is checked but not kept, because it belongs to the whole
    matrix."""

    def convert(stored: Tensor) -> Tensor:
        if whole.convert is not None:
            whole.convert(stored)
        return part.tensor

    return replace(whole, tensor=part.tensor, convert=convert)


def _check(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], ranks: Ranks) -> None:
    divides = all(
        size in (there, there * ranks.size) for size, there in zip(shape, wanted, strict=True)
    )
    if not divides or (shape != wanted and name.endswith(".g_idx")):
        raise CheckpointError(
            f"{name} of shape {list(shape)} cannot be cut among {ranks.size} ranks in the format "
            "of the checkpoint: set another tensor_parallel_size, or use a checkpoint that is not "
            "quantized"
        )


def _check_sections(name: str, there: int, size: int, sections: Sequence[Section]) -> None:
    """Raise CheckpointError if an entry of the tensor, which may belong to several features as a
    scale does, belongs to features of two ranks or of two sections."""
    sizes = [section.size for section in sections]
    each, rest = divmod(sum(sizes), there)
    is_cut = not rest and not any(it.size % (each * it.ranks.size) for it in sections)
    if not is_cut or size != sum(it.size // (each * it.ranks.size) for it in sections):
        raise CheckpointError(
            f"{name} has parts of {sizes} features, which cannot be cut among "
            f"{sections[0].ranks.size} ranks in the format of the checkpoint: set another "
            "tensor_parallel_size, or use a checkpoint that is not quantized"
        )
