"""Owns a running `specguide serve`, as a test or benchmark sees it that starts it and kills some of
its processes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE, FRONT = "specguide-core", "specguide-front"
"""The names that `top` shows for its processes."""
_READY_S = 600.0
_STOP_S = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class ServiceProcess:
    """Started on a free port; ready once `wait_until_ready` is over. lines: what it has written"""

    def __init__(self, *options: str, command: tuple[str, ...] = ("-m", "specguide")) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command, "serve", "--port", "0", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url, self.port = "", 0

    @property
    def errors(self) -> str:
        """Everything that it has written, errors included."""
        return "".join(self.lines)

    def __enter__(self) -> ServiceProcess:
        """Ready. Raises RuntimeError as `wait_until_ready`."""
        try:
            self.wait_until_ready()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends with it."""
        self.process.terminate()
        self.process.wait(_STOP_S)

    def wait_until_ready(self) -> None:
        """Raises RuntimeError with all that it has written where it ends instead."""
        wait_for(lambda: "serving on" in self.errors or self.process.poll() is not None, _READY_S)
        found = re.search(r"serving on (http://127.0.0.1:(\d+))", self.errors)
        if found is None:
            raise RuntimeError(self.errors)
        self.url = found[1]
        self.port = int(found[2])

    def pids(self, title: str) -> list[int]:
        """The ids of its living processes that `top` calls by this name."""
        return [
            pid
            for pid in children_of(self.process.pid)
            if is_alive(pid) and Path(f"/proc/{pid}/comm").read_text().strip() == title
        ]

    def kill_front(self) -> None:
        """Kills one of the fronts; waits until another one listens."""
        num_before = self.errors.count("serving on")
        os.kill(self.pids(FRONT)[0], signal.SIGKILL)
        wait_for(lambda: self.errors.count("serving on") > num_before, _READY_S)

    def kill_core(self) -> None:
        """Waits until it is gone."""
        (core,) = self.pids(CORE)
        os.kill(core, signal.SIGKILL)
        wait_for(lambda: not is_alive(core), _READY_S)

    def ended(self, since_s: float) -> tuple[int, float, str]:
        """Its exit code, how long it took, and what it wrote."""
        code = self.process.wait(60)
        took_s = time.monotonic() - since_s
        self._reader.join(10)
        return code, took_s, self.errors

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)


def free_port() -> int:
    """A port of this host that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def wait_for(condition: Callable[[], object], timeout_s: float) -> None:
    """Raises TimeoutError where it does not come true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"nothing came of it in {timeout_s:g} s")
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """Processes that a process has started."""
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


def descendants_of(pid: int) -> list[int]:
    """Its children, theirs, and so on."""
    children = children_of(pid)
    return [*children, *(one for child in children for one in descendants_of(child))]


def is_alive(pid: int) -> bool:
    """Whether it runs; one that nobody has waited for does not."""
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def cpu_s(pid: int, title: str) -> float:
    """Seconds of CPU that the children of this name have taken."""
    found = 0.0
    for child in children_of(pid):
        name, fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)
        if name.endswith(f"({title}"):
            found += sum(map(int, fields.split()[11:13])) / _TICKS
    return found


def num_in_group() -> Counter[str]:
    """Processes of this one's group, by state: Z for those that nobody has waited for."""
    states: Counter[str] = Counter()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group, *_ = stat.read_text().rsplit(") ", 1)[1].split()
            if int(group) == os.getpgrp():
                states["Z" if state == "Z" else "alive"] += 1
    return states
