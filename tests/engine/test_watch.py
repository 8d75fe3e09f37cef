"""A call that waits for a rank that is gone is ended by another thread."""

from __future__ import annotations

import threading
import time

import pytest

from specguide.engine.executors import watch
from specguide.engine.executors.watch import Watch


class Rank:
    words: str | None = None

    def end_in_words(self) -> str | None:
        return self.words


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LOOK_S", 0.01)
    monkeypatch.setattr(watch, "_GRACE_S", 0.05)


def test_a_call_is_ended_once_a_rank_has_ended() -> None:
    rank, aborted = Rank(), threading.Event()
    looks_after = Watch([Rank(), rank], aborted.set)
    with looks_after():
        assert not aborted.wait(0.2)
        rank.words = "rank 2 was ended by SIGKILL"
        assert aborted.wait(10)


def test_nothing_is_ended_between_calls_and_after_the_end() -> None:
    rank, aborted = Rank(), threading.Event()
    looks_after = Watch([rank], aborted.set)
    rank.words = "rank 1 ended with exit code 0"
    with looks_after():
        pass
    assert not aborted.wait(0.2)
    looks_after.end()
    time.sleep(0.05)
    with looks_after():
        assert not aborted.wait(0.2)
