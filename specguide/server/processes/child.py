"""Owns the supervisor's handle on a process of a service."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from specguide.host.env import prefer_huge_pages
from specguide.host.processes import ended_by

_SPAWN = multiprocessing.get_context("spawn")  # a fork would have all of the supervisor's sockets

NO_CHANGES: Mapping[str, str] = {}


class Child:
    """A process that calls `function(plan, control, parent_pid)`; control is its end of a pipe.

    name:     its name in messages
    environ:  variables that are set in it before `function` is imported
    function: "module:name"; this process does not import it
    control:  this process's end of the pipe
    sentinel: readable once the process has ended
    is_ready: set by the supervisor when the process says that it is ready
    """

    def __init__(
        self, name: str, function: str, plan: Any, environ: Mapping[str, str] = NO_CHANGES
    ) -> None:
        self.name = name
        self.is_ready = False
        self._is_silent = False
        self.control, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_enter, args=(environ, function, plan, theirs, os.getpid()), name=name
        )
        prefer_huge_pages()
        self._process.start()
        theirs.close()
        self.sentinel = self._process.sentinel

    @property
    def sources(self) -> tuple[Connection | int, ...]:
        """Sources to wait for: the process's messages, and its end."""
        return (self.sentinel,) if self._is_silent else (self.sentinel, self.control)

    @property
    def end(self) -> str:
        """How it ended, in words."""
        return f"{self.name} {ended_by(self._process.exitcode or 0)}"

    def hear(self) -> Any:
        """Its next message; None where it has ended."""
        try:
            return self.control.recv()
        except (EOFError, OSError):
            self._is_silent = True
            return None

    def tell(self, order: Any) -> None:
        """Send it a message; does nothing where it has ended."""
        with suppress(OSError):
            self.control.send(order)

    def kill(self) -> None:
        """Kill it at once, whatever it is doing."""
        self._process.kill()

    def bury(self) -> None:
        """Release the resources of a process that has ended or was killed."""
        self._process.join()
        self.control.close()


def _enter(environ: Mapping[str, str], function: str, *args: Any) -> None:
    os.environ.update(environ)
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(*args)
