"""Owns how a checkpoint's stacked experts, one tensor for the same map of all experts, are read as
tensors of single experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from specguide.models.stored_tensors import StoredSlice, StoredTensor

_TENSORS = {"": "weight", "_scale_inv": "weight_scale_inv"}
"""What stands behind the name of a stacked map, and the tensor of a single one."""
_NAMES = {
    "gate_up_proj": (("gate_proj", "up_proj"), ("w1", "w3")),
    "down_proj": (("down_proj",), ("w2",)),
}
"""The maps of an expert that one stacked map consists of, in the layouts of single experts."""


class _Stack(NamedTuple):
    """What a stacked tensor is made of.

    stem:   its full name up to `experts.`
    maps:   the maps of each expert, whose rows follow one another
    tensor: name of the tensor that each of them has
    """

    stem: str
    maps: tuple[str, ...]
    tensor: str

    def name(self, expert: int, own: str) -> str:
        """The full name of one expert's tensor."""
        return f"{self.stem}experts.{expert}.{own}.{self.tensor}"


def unstacked(
    stored: Mapping[str, StoredTensor], is_known: Callable[[str], bool]
) -> Iterator[tuple[str, StoredTensor]]:
    """The tensors of a file, by name. `experts.gate_up_proj` [E, 2 · expert_size, hidden] and
    `experts.down_proj` [E, hidden, expert_size], as transformers stacks them, become tensors of the
    single experts if any of these is known: a rank may have only some of them. So do the scales of
    their blocks, which transformers stacks even where it stores the experts one by one."""
    for name, tensor in stored.items():
        stack = _stack(name, tensor.shape, is_known)
        if stack is not None and isinstance(tensor, StoredSlice):
            yield from _experts(stack, tensor)
        else:
            yield name, tensor


def _stack(name: str, shape: tuple[int, ...], is_known: Callable[[str], bool]) -> _Stack | None:
    """What a tensor is made of; None: it is not stacked."""
    stem, mark, own = name.rpartition("experts.")
    for stacked, layouts in _NAMES.items():
        tensor = _TENSORS.get(own.removeprefix(stacked))
        if not mark or not own.startswith(stacked) or tensor is None or len(shape) != 3:
            continue
        for maps in layouts:
            stack = _Stack(stem, maps, tensor)
            if shape[1] % len(maps) == 0 and any(
                is_known(stack.name(expert, maps[0])) for expert in range(shape[0])
            ):
                return stack
    return None


def _experts(stack: _Stack, tensor: StoredSlice) -> Iterator[tuple[str, StoredTensor]]:
    num_experts, num_rows, _ = tensor.shape
    size = num_rows // len(stack.maps)
    for expert in range(num_experts):
        for place, own in enumerate(stack.maps):
            rows = tensor.rows(expert, place * size, (place + 1) * size)
            yield stack.name(expert, own), rows
