"""Owns how a process of ours lives and ends: with its parent, under a name of its own."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time

_DIE_WITH_PARENT = 1
_SET_NAME = 15
"""prctl's PR_SET_PDEATHSIG and PR_SET_NAME."""
_LOOK_S = 0.5
_MOST_NEW = 10_000
"""Objects between collections of garbage; by default 700, which hundreds of streams always have."""


def live_with(parent_pid: int, title: str) -> None:
    """Make this process end with the thread that has started it, and only by its parent's word:
    signals that a terminal sends to all of them are the parent's to answer.

    title: what `top` calls it, 15 characters
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_SET_NAME, title.encode())
        prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def end_with(parent_pid: int) -> None:
    """Make this process end with its parent, whichever of its threads has started it, and no sooner
    by a terminal's interrupt, which the parent answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_await_end_of, args=(parent_pid,), daemon=True).start()


def _await_end_of(parent_pid: int) -> None:
    """The kernel gives a process whose parent has ended another one."""
    while os.getppid() == parent_pid:
        time.sleep(_LOOK_S)
    os._exit(1)


def ended_by(exit_code: int) -> str:
    """How a process ended, in words that go on behind its name. exit_code: as Python has it; that
    of a signal is negative"""
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with exit code {exit_code}"


def settle() -> None:
    """What this process has by now it has to its end: collections of garbage, for which all of it
    stands still, look no more at any of that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MOST_NEW)
