"""Owns how the passes of a forward stream call the host between them, and take the rows that it has
filled from its memory.

A call is a number in a word of the host's memory, and its answer is the same number in another: no
stream is forked for it, none is joined, and each kernel of the forward stream may still be launched
while the one before it ends. Who is called is the host's matter; see `native.PollingStream.hold`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class HostCall:
    """The words of one function of the host, int32 [1] each.

    Where several devices have the same rows, the function is called once all of them call it, since
    it may write what they read before: one calls the host, the others tell that one.

    due, done: in the host's memory, as the device reads and writes it: the number of the last call,
               and of the last one that is over
    called, over: in the device's memory: the number of the last call that it has made, and of the
                  last one that it knows to be over
    aborted: in the host's memory; once it is not 0 nobody waits any more
    others:  int32 [n] in the host's memory, the `due` of the other devices; a device that tells
             another one, or is alone, has none
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
    fill_ids: int64 [N, S], 0: the row does not count; else a number that is the same for equal
              rows; a number below 0 does not come again
    held:     uint8 [S], 1: the slot's request is held; None: this is not taken
    """

    bitmask: Tensor
    fill_ids: Tensor
    held: Tensor | None


class TakenRows(NamedTuple):
    """Copies of FilledRows in the device's memory.

    guided:  uint8 [N, S], 1: the row counts
    new_ids: int64 [N, S], the values that `fill_ids` are to have
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
    """The last rows with numbers above 0, in the device's memory: number n at place n modulo R.

    Numbers that are taken at once, or before it is known that they have been taken, lie within R
    numbers in a row.

    bitmask: int32 [R, words]
    ids:     int64 [R], their numbers, 0: there is none
    """

    bitmask: Tensor
    ids: Tensor


class Wait(NamedTuple):
    """A wait for the answer to the last call; the only one for it.

    announced: int32 [1] in the host's memory, where `number` says that this waits
    """

    call: HostCall
    announced: Tensor
    number: int


def call_host(call: HostCall, announced: Tensor | None = None) -> None:
    """Have the host's function run once the other devices call it, too; it sees all that was
    written before. announced: set to 0 before the call"""
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
    """Make the copies equal to the host's rows once the wait is over. A row that does not count, or
    has the same number as before, stays as it is. wait: None: there is nothing to wait for

    kept: rows that are there are taken from it, and others with numbers above 0 are put there
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
