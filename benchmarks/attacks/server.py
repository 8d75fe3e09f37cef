"""Owns the server that is attacked, and how much memory it takes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from benchmarks.services.process import descendants_of, free_port

LONGEST_END_S = 10.0


class Server:
    """`specguide serve` on a free port, until it is stopped."""

    def __init__(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start it, or start it again on the same port."""
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "specguide",
                "serve",
                "--port",
                str(self.port),
                "--served-model-name",
                "small",
                "--max-batch-size",
                str(self._max_batch_size),
                "--max-waiting",
                "64",
                "--drain-s",
                "1",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self.is_alive and not self.answers():
            time.sleep(0.1)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def answers(self) -> bool:
        """Whether it is healthy."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/health", timeout=10).status_code == 200
        return False

    def connect(self, text: bytes) -> socket.socket:
        """A connection on which these bytes have been sent."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        one.sendall(text)
        return one

    @property
    def _pids(self) -> list[int]:
        """The ids of all its processes."""
        return [self._process.pid, *descendants_of(self._process.pid)]

    def forget_peak(self) -> None:
        """Reset `peak_mb`."""
        for pid in self._pids:
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak_mb(self) -> int:
        """The sum of the peak memory of its processes, 10^6 bytes; 0 if the system does not say."""
        found_kb = 0
        for pid in self._pids:
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                peak = next(line for line in lines if line.startswith("VmHWM"))
                found_kb += int(peak.split()[1])
        return found_kb * 1024 // 10**6

    def stop(self) -> bool:
        """Stop it; returns whether it ended when it was told to."""
        self._process.terminate()
        try:
            return self._process.wait(LONGEST_END_S) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
