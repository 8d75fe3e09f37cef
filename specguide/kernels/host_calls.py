"""Owns how the passes of a forward stream call the host between two kernels, and read the rows that
the host filled, from the host's memory.

A call writes a number into a word of the host's memory; the answer is the same number in another
word. No stream is forked or joined for it, and each kernel of the forward stream may still be
launched while the one before it ends. Which function is called is decided on the host; see
`native.PollingStream.hold`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class HostCall:
    """The words of one host function, int32 [1] each.

    If several devices share the same rows, the function runs only once all of them have called it,
    since it may overwrite what they read before. So one device calls the host, and the others
    report to that device.

    due, done: in the host's memory, read and written by the device: the number of the last call,
               and of the last call that is finished
    called, over: in the device's memory: the number of its last call, and of the last call that it
                  knows to be finished
    aborted: in the host's memory; once it is not 0 nobody waits any longer
    others:  int32 [n] in the host's memory, the `due` words of the other devices; empty for a
             device that reports to another one, or is alone
    """

    due: Tensor
    done: Tensor
    called: Tensor
    over: Tensor
    aborted: Tensor
    others: Tensor

    @property
    def device(self) -> torch.device:
        return self.called.device


class FilledRows(NamedTuple):
    """Rows in the host's memory, as a device reads them: N nodes of S slots each.

    bitmask:  int32 [N, S, words]
    fill_ids: int64 [N, S], 0: the row is free; otherwise a number that is the same for equal rows;
              a negative number is used only once
    held:     uint8 [S], 1: the slot's request is held; None: it is not copied
    """

    bitmask: Tensor
    fill_ids: Tensor
    held: Tensor | None


class TakenRows(NamedTuple):
    """Copies of FilledRows in the device's memory.

    guided:  uint8 [N, S], 1: the row is guided
    new_ids: int64 [N, S], the values that `fill_ids` will have after this call
    sources: int32 [N, S], place of a row among kept rows; -1: it is not there
    """

    bitmask: Tensor
    fill_ids: Tensor
    guided: Tensor
    new_ids: Tensor
    sources: Tensor
    held: Tensor

    @property
    def device(self) -> torch.device:
        return self.bitmask.device


class KeptRows(NamedTuple):
    """The last rows with positive numbers, in the device's memory: number n is at place n modulo R.

    Numbers that are taken together, or before earlier ones are known to be taken, lie within R
    consecutive numbers.

    bitmask: int32 [R, words]
    ids:     int64 [R], their numbers, 0: the place is empty
    """

    bitmask: Tensor
    ids: Tensor


class Wait(NamedTuple):
    """A wait for the answer to the last call; each call has exactly one wait.

    announced: int32 [1] in the host's memory, where `number` says that this wait has begun
    """

    call: HostCall
    announced: Tensor
    number: int


def call_host(call: HostCall, announced: Tensor | None = None) -> None:
    """Have the host's function run once the other devices have called it, too. It sees all that was
    written before the call. announced: set to 0 before the call"""
    if announced is not None:
        announced.zero_()
    call.called.add_(2)  # odd from the first call on, so that no number is 0
    call.called.bitwise_or_(1)
    while (call.others != call.called).any() and not call.aborted.item():
        time.sleep(0)
    call.due.copy_(call.called)


def take_rows(
    taken: TakenRows, filled: FilledRows, wait: Wait | None, kept: KeptRows | None = None
) -> None:
    """Copy the host's rows once the wait is over. A row that is free, or has the same number as
    before, is not copied again. wait: None: there is nothing to wait for

    kept: rows that are found here are taken from here, and new ones with positive numbers are put
          here
    """
    if wait is not None:
        call, announced, number = wait
        announced.fill_(number)
        while call.done.item() != call.called.item() and not call.aborted.item():
            time.sleep(0)
        call.over.copy_(call.called)
    taken.new_ids.copy_(filled.fill_ids)
    is_new = (taken.new_ids != 0) & (taken.new_ids != taken.fill_ids)
    rows = filled.bitmask
    if kept is not None:
        places = taken.new_ids.remainder(len(kept.ids))
        is_kept = (taken.new_ids > 0) & (kept.ids[places] == taken.new_ids)
        taken.sources.copy_(torch.where(is_kept, places, -1))
        rows = torch.where(is_kept[:, :, None], kept.bitmask[places], rows)
        to_keep = is_new & (taken.new_ids > 0) & ~is_kept
        kept.bitmask[places[to_keep]] = rows[to_keep]
        kept.ids[places[to_keep]] = taken.new_ids[to_keep]
    taken.bitmask.copy_(torch.where(is_new[:, :, None], rows, taken.bitmask))
    taken.fill_ids.copy_(torch.where(is_new, taken.new_ids, taken.fill_ids))
    taken.guided.copy_(taken.new_ids != 0)
    if filled.held is not None:
        taken.held.copy_(filled.held)
