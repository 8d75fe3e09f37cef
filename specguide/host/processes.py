"""Owns how our child processes live and end: each has its own name and ends with its parent."""

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
_SIGNAL_NAMES = {each.value: each.name for each in signal.Signals}
"""Most real-time signals have no names."""
_LOOK_S = 0.5
_MOST_NEW = 10_000
"""New objects that start a garbage collection. Python's default is 700, which hundreds of streams
reach all the time."""


def live_with(parent_pid: int, title: str) -> None:
    """Make this process end with the thread that has started it, and ignore SIGINT and SIGTERM: the
    parent answers these signals for all its processes.

    title: the name that `top` shows, 15 characters
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
    """Make this process end with its parent process, whichever thread has started it, and ignore
    SIGINT, which the parent answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_await_end_of, args=(parent_pid,), daemon=True).start()


def _await_end_of(parent_pid: int) -> None:
    """Exit when the parent has ended: the kernel then gives this process another parent."""
    while os.getppid() == parent_pid:
        time.sleep(_LOOK_S)
    os._exit(1)


def ended_by(exit_code: int) -> str:
    """How a process ended, in words that follow its name. exit_code: as Python gives it, negative
    for a signal"""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    return f"was ended by {_SIGNAL_NAMES.get(-exit_code, f'signal {-exit_code}')}"


def settle() -> None:
    """Exempt all objects that exist now from garbage collection, since they live until the process
    ends. Collections stop the whole process, and are shorter without these objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_MOST_NEW)
