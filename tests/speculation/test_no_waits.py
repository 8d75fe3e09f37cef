"""What the host writes for an iteration never waits for those under way.

In torch 2.11 a number that is assigned to some places of a GPU's tensor becomes a tensor on the
host first, whose copy the host waits for: `index_put_` of such a value, or a copy to one place.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from staggered import SPECS, asked, engine_of, run
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from specguide.kernels import on_device, slot_rows, write_slots
from specguide.slots import table
from specguide.speculation import OneModelStep, proposals, trees

aten = torch.ops.aten


class Watched(TorchDispatchMode):
    """Notes operations that wait on a GPU.

    num_fills: operations that stand for them
    num_writes: writes of slots' rows, which are one kernel on a GPU, and not watched
    uploaded:  values that are on the device before they are assigned
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.num_fills = self.num_writes = 0
        self.uploaded: list[Tensor] = []

    def on_device(self, *args: Any) -> Tensor:
        """See kernels.on_device."""
        self.uploaded.append(on_device(*args))
        return self.uploaded[-1]

    def write_slots(self, rows: Tensor, slots: Any) -> None:
        """See kernels.write_slots."""
        self.num_writes += 1
        with _disable_current_modes():
            write_slots(rows, slots)

    def _is_number(self, value: Tensor) -> bool:
        places = {each.untyped_storage().data_ptr() for each in self.uploaded}
        return value.dim() == 0 and value.untyped_storage().data_ptr() not in places

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kind = func.overloadpacket
        if kind in (aten.index_put_, aten._index_put_impl_) and self._is_number(args[2]):
            self.waits.append(f"{func} of {list(args[0].shape)}")
        if kind in (aten.fill_, aten.copy_) and args[0].dim() == 0:
            self.waits.append(f"{func} of one place")
        if kind in (aten._local_scalar_dense, aten.nonzero):
            self.waits.append(str(func))
        self.num_fills += kind in (aten.index_fill_, aten.fill_)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", ["plain", "eagle3", "tree", "forced"])
def test_slots_are_entered_and_left_without_waiting(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched()
    change, leave = OneModelStep._change, OneModelStep.leave

    def changing(step: OneModelStep, batch: Any) -> None:
        with watched:
            change(step, batch)

    def leaving(step: OneModelStep, slots: Any) -> None:
        with watched:
            leave(step, slots)

    for module in (slot_rows, proposals, trees):
        monkeypatch.setattr(module, "on_device", watched.on_device)
    monkeypatch.setattr(table, "write_slots", watched.write_slots)
    monkeypatch.setattr(OneModelStep, "_change", changing)
    monkeypatch.setattr(OneModelStep, "leave", leaving)
    engine, watch = engine_of(SPECS[mode], max_batch_size=4)
    run(engine, asked(6))
    assert watch.num_starts and watch.chunks and watched.num_writes
    assert not watched.waits


def test_it_sees_what_waits() -> None:
    values, slots = torch.zeros(4, 3), torch.tensor([1, 2])
    watched = Watched()
    with watched:
        values[slots] = 1
        values[slots, 1:] = Tensor([2.0, 3.0])
        values[1, 1] = 2
        values[1:2].fill_(0)
        values.index_fill_(0, slots, 5)
    assert len(watched.waits) == 2 and watched.num_fills >= 2
