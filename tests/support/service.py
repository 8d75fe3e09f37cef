"""Owns `specguide serve` in processes of its own, small, for tests that end some of them."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from live_server import connect, until

ROOT = Path(__file__).parents[2]
COMMAND = ("-m", "specguide")
STUCK = (str(Path(__file__).with_name("stuck_service.py")),)


class Service:
    """Started; ready once `wait_until_ready` is over. lines: what it has written"""

    def __init__(self, *options: str, command: tuple[str, ...] = COMMAND) -> None:
        small = ("--port", "0", "--served-model-name", "small", "--max-batch-size", "4")
        self.process = subprocess.Popen(
            [sys.executable, *command, "serve", *small, *options],
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
        """All that it has written."""
        return "".join(self.lines)

    def wait_until_ready(self) -> None:
        until(lambda: "serving on" in self.errors or self.process.poll() is not None, 60)
        found = re.search(r"serving on (http://127.0.0.1:(\d+))", self.errors)
        assert found, self.errors
        self.url, self.port = found[1], int(found[2])

    def connect(self, text: bytes = b"") -> socket.socket:
        return connect(self.port, text, receive_bytes=4096)

    def pids(self, title: str) -> list[int]:
        """Of its living processes that `top` calls by this name."""
        return [
            pid
            for pid in children_of(self.process.pid)
            if is_alive(pid) and Path(f"/proc/{pid}/comm").read_text().strip() == title
        ]

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


@contextlib.contextmanager
def serving(*options: str, command: tuple[str, ...] = COMMAND) -> Iterator[Service]:
    """Ready; when this is left, no process of it is."""
    service = Service(*options, command=command)
    family: set[int] = set()
    try:
        service.wait_until_ready()
        yield service
        family = set(descendants_of(service.process.pid))
    finally:
        family |= set(descendants_of(service.process.pid))
        service.process.kill()
        service.process.wait()
        until(lambda: not any(map(is_alive, family)), 10)


def children_of(pid: int) -> list[int]:
    """Processes that a process has started and that live."""
    with contextlib.suppress(OSError):
        found = [
            Path(f"/proc/{pid}/task/{task.name}/children").read_text().split()
            for task in Path(f"/proc/{pid}/task").iterdir()
        ]
        return [int(child) for children in found for child in children]
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
