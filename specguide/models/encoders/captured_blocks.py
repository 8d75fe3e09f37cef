"""Owns CapturedBlocks: the blocks of an encoder, each a CUDA graph for shapes that come often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils._pytree import tree_flatten, tree_unflatten

from specguide.kernels.capture import capturing

_MAX_SHAPES: Final = 32
_MAX_BYTES: Final = 32 << 20
"""Inputs of a shape that is captured; each keeps its own."""
MAX_TOKENS: Final = 8192
"""Tokens of a block in a graph; with more, launching its kernels is a small part of its time."""


@dataclass(eq=False)
class _Shape:
    """What blocks have for inputs of one shape.

    met:    blocks that have run; the first run compiles kernels, and many shapes never come again
    inputs: tensors that the graphs read; the first is the hidden state, which they also write
    graphs: by block
    """

    met: set[int] = field(default_factory=set)
    inputs: list[Tensor] = field(default_factory=list)
    graphs: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)


class CapturedBlocks:
    """Replaces `forward` of an encoder's blocks. A block takes the hidden state and anything else,
    and returns the next hidden state; from the same shapes on it is one launch where its kernels
    were many. The shapes that were used longest ago give way.

    rounded: arguments by name that give the same result, of fewer shapes
    """

    def __init__(
        self,
        blocks: Iterable[Module],
        device: torch.device,
        rounded: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self._rounded = rounded or dict
        self._shapes: OrderedDict[Hashable, _Shape] = OrderedDict()
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        for index, block in enumerate(blocks):
            block.forward = partial(self._run, index, block.forward)

    def _run(self, index: int, forward: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        kwargs = self._rounded(kwargs)
        leaves, structure = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        num_bytes = sum(tensor.nbytes for tensor in tensors)
        if tensors[0].shape[:-1].numel() > MAX_TOKENS or num_bytes > _MAX_BYTES:
            return forward(*args, **kwargs)
        shape = self._shape((structure, tuple(map(_kind, leaves))))
        if index not in shape.met:
            shape.met.add(index)
            return forward(*args, **kwargs)
        if index not in shape.graphs:
            shape.inputs = shape.inputs or [tensor.clone() for tensor in tensors]
            own = iter(shape.inputs)
            filled = [next(own) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            args, kwargs = tree_unflatten(filled, structure)
            shape.graphs[index] = self._captured(partial(forward, *args, **kwargs), shape.inputs[0])
        torch._foreach_copy_(shape.inputs, tensors)
        shape.graphs[index].replay()
        return shape.inputs[0].clone()

    def _shape(self, key: Hashable) -> _Shape:
        shape = self._shapes.setdefault(key, _Shape())
        self._shapes.move_to_end(key)
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes.popitem(last=False)
        return shape

    def _captured(self, forward: Callable[[], Tensor], hidden: Tensor) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with capturing(graph, self._stream, self._pool):
            hidden.copy_(forward())
        return graph


def _kind(leaf: object) -> object:
    return (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf
