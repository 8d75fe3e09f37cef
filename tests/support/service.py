"""Owns a small `specguide serve` in processes of its own, all of which are gone at the end."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from live_server import connect, until

from benchmarks.services.process import ServiceProcess, descendants_of, is_alive

COMMAND = ("-m", "specguide")
STUCK = (str(Path(__file__).with_name("stuck_service.py")),)
FAILING = (str(Path(__file__).with_name("failing_service.py")),)


class Service(ServiceProcess):
    """A service of the shipped model, with few slots."""

    def __init__(self, *options: str, command: tuple[str, ...] = COMMAND) -> None:
        small = ("--served-model-name", "small", "--max-batch-size", "4")
        super().__init__(*small, *options, command=command)

    def connect(self, text: bytes = b"") -> socket.socket:
        """See `live_server.connect`."""
        return connect(self.port, text, receive_bytes=4096)


@contextlib.contextmanager
def serving(*options: str, command: tuple[str, ...] = COMMAND) -> Iterator[Service]:
    """A context with a service that is ready. Behind it none of its processes is left."""
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
