"""Hosts that run ranks of an engine whose rank 0 is on another host: here they are processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.services.process import free_port

KEY = "SPECGUIDE_RANKS_KEY"


def free_address() -> str:
    """HOST:PORT where ranks may meet."""
    return f"127.0.0.1:{free_port()}"


@contextmanager
def joining(address: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process that stands for the other host, with `variables` in its environment."""
    process = subprocess.Popen(
        [sys.executable, "-m", "specguide", "join", address],
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
