"""Owns which layers of a model are alike, so that a few of them launch the kernels of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import pairwise
from types import FunctionType
from typing import Any

from torch import Tensor

from specguide.kernels.products import NUM_TIMED_WEIGHTS
from specguide.layers.decoder_layer import Layer

_DIGITS = dict.fromkeys(map(ord, "0123456789"))
"""The names of two layers' tensors in a checkpoint differ in these alone."""


def needed_to_rehearse(layers: Sequence[Layer]) -> list[bool]:
    """Whether each layer may launch kernels that no layer before it launches, or has weights with
    which products are timed.

    A layer that is not needed can be left out: the next one takes the input that it would have
    had, of the same form. The last layer is needed, since another norm follows it.
    """
    seen: Counter[Hashable] = Counter()
    needed = []
    for layer, next_layer in pairwise(layers):
        norm, next_norm = structure_of(layer.input_norm), structure_of(next_layer.input_norm)
        kind = structure_of(layer), next_norm
        needed.append(seen[kind] < NUM_TIMED_WEIGHTS or norm != next_norm)
        seen[kind] += 1
    return [*needed, True]


def structure_of(part: Any) -> Hashable:
    """What decides which kernels a part of a model launches: types, values, and the shapes, strides
    and dtypes of tensors, but not what is in them.

    Equal structures launch equal kernels. An object that is neither data nor a value is equal to
    itself alone, so parts that are alike may have different structures.
    """
    if isinstance(part, Tensor):
        return part.shape, part.stride(), part.dtype
    if is_dataclass(part) and not isinstance(part, type):
        return type(part), *(structure_of(getattr(part, field.name)) for field in fields(part))
    if type(part).__module__.startswith(__package__):
        return type(part), *map(structure_of, vars(part).values())
    if isinstance(part, Mapping):
        return tuple(map(structure_of, part.values()))
    if isinstance(part, tuple | list):
        return type(part), *map(structure_of, part)
    if isinstance(part, str):
        return part.translate(_DIGITS)
    if isinstance(part, partial):
        return structure_of(part.func)
    if isinstance(part, FunctionType):
        return part.__qualname__
    return part if isinstance(part, Hashable) else id(part)
