"""Owns the well-behaved client whose latency is measured beside hostile ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import httpx

from benchmarks.attacks.bodies import USER

_PAUSE_S = 0.02


class Neighbour(threading.Thread):
    """Sends short guided requests, one after another, while it is entered.

    began:    when each request was sent, by time.perf_counter
    seconds:  that each took; statuses: those of the answers, 0 where none came
    """

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._is_done = threading.Event()
        self.began: list[float] = []
        self.seconds: list[float] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        """Sends requests until the client is left."""
        with httpx.Client(timeout=60) as client:
            while not self._is_done.is_set():
                start = time.perf_counter()
                try:
                    answer = client.post(
                        f"{self._url}/v1/chat/completions",
                        json={
                            "model": "small",
                            "messages": USER,
                            "max_tokens": 4,
                            "allow_truncation": True,
                            "guided_regex": "[a-z ]{20}",
                        },
                    )
                    self.statuses.add(answer.status_code)
                except httpx.HTTPError:
                    self.statuses.add(0)
                self.began.append(start)
                self.seconds.append(time.perf_counter() - start)
                time.sleep(_PAUSE_S)

    def __enter__(self) -> Neighbour:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self.join(60)


def latency(seconds: Sequence[float], prefix: str = "") -> dict[str, float | None]:
    """p50 and p99, ms; None if nothing was sent. prefix: prefix of their names"""
    ordered = sorted(1e3 * one for one in seconds)
    return {
        f"{prefix}p{percent}_ms": round(ordered[len(ordered) * percent // 100], 1)
        if ordered
        else None
        for percent in (50, 99)
    }
