"""Owns how a checkpoint's tensors are cut into the parts that ranks hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.layers.destination import Destination
from specguide.parallel import Ranks

Cut = Literal["outputs", "inputs"]
"""Which features of a projection are divided among ranks: its outputs (column parallel), or its
inputs, so that the ranks' products are summed (row parallel)."""


def shards(
    whole: Mapping[str, Destination], parts: Mapping[str, Destination], ranks: Ranks
) -> dict[str, Destination]:
    """Where a checkpoint's tensors go, of which this rank keeps a part.

    whole: where they would go on one rank, which says their shapes; no memory is behind it
    parts: where the part goes, by the same names

    A tensor is cut in each dimension in which its part is smaller. A bias that is not cut beside
    a matrix that is cut by inputs is the caller's matter. Raises CheckpointError for a tensor that
    cannot be cut.
    """
    return {name: _shard(name, whole[name], part, ranks) for name, part in parts.items()}


def shards_of_sections(
    whole: Mapping[str, Destination],
    parts: Mapping[str, Destination],
    ranks: Ranks,
    sections: Sequence[int],
) -> dict[str, Destination]:
    """As `shards`, of a map in which several lie one behind the other, as gate and up: each rank
    keeps a part of each section.

    sections: features of each; they are all of those that are cut
    """
    cut = shards(whole, parts, ranks)
    return {
        name: _shard_of_sections(name, cut[name], part, ranks, sections)
        for name, part in parts.items()
    }


def _shard_of_sections(
    name: str, cut: Destination, part: Destination, ranks: Ranks, sections: Sequence[int]
) -> Destination:
    if cut is part or part.tensor.numel() == 0:
        return cut
    wanted_shapes = (part.shape, *part.other_shapes)
    shapes = dict(zip((cut.shape, *cut.other_shapes), wanted_shapes, strict=True))
    for shape, wanted in shapes.items():
        for there, size in zip(shape, wanted, strict=True):
            if there != size:
                _check_sections(name, there, ranks, sections)

    def convert(stored: Tensor) -> Tensor:
        for dim, size in enumerate(shapes[tuple(stored.shape)]):
            there = stored.shape[dim]
            if there != size:
                sizes = [section * there // sum(sections) for section in sections]
                chunks = [it.chunk(ranks.size, dim)[ranks.rank] for it in stored.split(sizes, dim)]
                stored = torch.cat(chunks, dim)
        return stored if part.convert is None else part.convert(stored)

    return replace(cut, convert=convert)


def added_once(whole: Destination, part: Destination, ranks: Ranks) -> Destination:
    """A bias behind a sum over ranks: rank 0 adds it, and the others add 0."""
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
    """Of a tensor that is looked at, and of which nothing is kept: it is of the whole matrix."""

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
            f"{name} of shape {list(shape)} cannot be cut among {ranks.size} ranks in the form in "
            "which the checkpoint holds it: take another tensor_parallel_size, or a checkpoint "
            "that is not quantized"
        )


def _check_sections(name: str, there: int, ranks: Ranks, sections: Sequence[int]) -> None:
    """An entry of the tensor may stand for several features, as a scale does: none for features of
    two ranks, or of two sections."""
    each, rest = divmod(sum(sections), there)
    if rest or any(section % (each * ranks.size) for section in sections):
        raise CheckpointError(
            f"{name} holds parts of {list(sections)} features, which cannot be cut among "
            f"{ranks.size} ranks in the form in which the checkpoint holds them: take another "
            "tensor_parallel_size, or a checkpoint that is not quantized"
        )
