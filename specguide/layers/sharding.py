"""Owns how a checkpoint's tensors are cut into the shards that ranks hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.layers.destination import Destination
from specguide.parallel import Ranks

Cut = Literal["outputs", "inputs"]
"""Which features of a projection are divided among ranks: its outputs (column parallel), or its
inputs, where the ranks' products have to be summed (row parallel)."""
_Shape = tuple[int, ...]


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

    def cut(stored: Tensor, dim: int) -> Tensor:
        return stored.chunk(ranks.size, dim)[ranks.rank]

    return {
        name: _shard(whole[name], part, partial(_check, name, ranks), cut)
        for name, part in parts.items()
    }


def shards_of_sections(
    whole: Mapping[str, Destination], parts: Mapping[str, Destination], sections: Sequence[Section]
) -> dict[str, Destination]:
    """Like `shards`, for a map whose output features consist of `sections`, such as gate and up:
    each rank keeps its part of each section."""
    if len(sections) == 1:
        return shards(whole, parts, sections[0].ranks)

    def cut(stored: Tensor, dim: int) -> Tensor:
        num_each = sum(it.size for it in sections) // stored.shape[dim]
        each = stored.split([it.size // num_each for it in sections], dim)
        chunks = [
            it.chunk(of.ranks.size, dim)[of.ranks.rank]
            for it, of in zip(each, sections, strict=True)
        ]
        return torch.cat(chunks, dim)

    return {
        name: _shard(whole[name], part, partial(_check_sections, name, sections), cut)
        for name, part in parts.items()
    }


def added_once(whole: Destination, part: Destination, ranks: Ranks) -> Destination:
    """Where a bias goes that is added after a sum over ranks: rank 0 adds it, and the others add
    0."""
    if ranks.rank == 0:
        return part
    return replace(whole, tensor=part.tensor, convert=torch.zeros_like)


def _shard(
    whole: Destination,
    part: Destination,
    check: Callable[[_Shape, _Shape], None],
    cut: Callable[[Tensor, int], Tensor],
) -> Destination:
    """Where a part of a tensor goes. check: raises CheckpointError if a shape cannot be cut to
    another one; cut: the part of a tensor along a dimension"""
    if part.tensor.numel() == 0:
        return _checked_whole(whole, part)
    shapes = (whole.shape, *whole.other_shapes)
    wanted = dict(zip(shapes, (part.shape, *part.other_shapes), strict=True))
    for shape, sizes in wanted.items():
        check(shape, sizes)
    if all(shape == sizes for shape, sizes in wanted.items()):
        return part

    def convert(stored: Tensor) -> Tensor:
        for dim, size in enumerate(wanted[tuple(stored.shape)]):
            if size != stored.shape[dim]:
                stored = cut(stored, dim)
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


def _check(name: str, ranks: Ranks, shape: _Shape, wanted: _Shape) -> None:
    divides = all(
        size in (there, there * ranks.size) for size, there in zip(shape, wanted, strict=True)
    )
    if not divides or (shape != wanted and name.endswith(".g_idx")):
        raise CheckpointError(
            f"{name} of shape {list(shape)} cannot be cut among {ranks.size} ranks in the format "
            "of the checkpoint: set another tensor_parallel_size, or use a checkpoint that is not "
            "quantized"
        )


def _check_sections(name: str, sections: Sequence[Section], shape: _Shape, wanted: _Shape) -> None:
    """Raise CheckpointError if an entry of the tensor, which may belong to several features as a
    scale does, belongs to features of two ranks or of two sections."""
    sizes = [section.size for section in sections]
    for there, size in zip(shape, wanted, strict=True):
        if there == size:
            continue
        each, rest = divmod(sum(sizes), there)
        is_cut = not rest and not any(it.size % (each * it.ranks.size) for it in sections)
        if not is_cut or size != sum(it.size // (each * it.ranks.size) for it in sections):
            raise CheckpointError(
                f"{name} has parts of {sizes} features, which cannot be cut among "
                f"{sections[0].ranks.size} ranks in the format of the checkpoint: set another "
                "tensor_parallel_size, or use a checkpoint that is not quantized"
            )
