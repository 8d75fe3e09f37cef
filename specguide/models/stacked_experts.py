"""Owns how a checkpoint's stacked experts, one tensor for the same map of all experts, are read as
tensors of single experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from specguide.models.stored_tensors import StoredSlice, StoredTensor

_GATE_UP, _DOWN = ".experts.gate_up_proj", ".experts.down_proj"


def unstacked(
    stored: Mapping[str, StoredTensor], is_known: Callable[[str], bool]
) -> Iterator[tuple[str, StoredTensor]]:
    """The tensors of a file, by name. `experts.gate_up_proj` [E, 2 · expert_size, hidden] and
    `experts.down_proj` [E, hidden, expert_size], as transformers stacks them, become tensors of the
    single experts if any of these is known: a rank may have only some of them."""
    for name, tensor in stored.items():
        stem = name.removesuffix(_GATE_UP).removesuffix(_DOWN)
        is_stacked = (
            name != stem
            and len(tensor.shape) == 3
            and any(
                is_known(f"{stem}.experts.{expert}.down_proj.weight")
                for expert in range(tensor.shape[0])
            )
        )
        if is_stacked and isinstance(tensor, StoredSlice):
            yield from _experts(stem, name, tensor)
        else:
            yield name, tensor


def _experts(stem: str, name: str, tensor: StoredSlice) -> Iterator[tuple[str, StoredTensor]]:
    num_experts, num_rows, _ = tensor.shape
    maps = ("gate_proj", "up_proj") if name.endswith(_GATE_UP) else ("down_proj",)
    size = num_rows // len(maps)
    for expert in range(num_experts):
        for place, own in enumerate(maps):
            rows = tensor.rows(expert, place * size, (place + 1) * size)
            yield f"{stem}.experts.{expert}.{own}.weight", rows
