"""Failures that nobody expected while a guide is compiled: callers are told, threads live on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY

from specguide.config import GuideConfig
from specguide.errors import EngineError
from specguide.guide import Guide
from specguide.guided.backend import Rewritten, Written
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling import lanes, libraries
from specguide.guided.compiling.workers import Lane

WAIT_S = 60


class Panic(BaseException):
    """An error as a library in Rust raises it."""


class PanickingBackend:
    """Panics at every guide."""

    def outline(self, written: Written, rewritten: Rewritten) -> None:
        return None

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        raise Panic("index out of bounds")


def failure(compiler: GrammarCompiler, pattern: str) -> str:
    error = compiler.submit(Guide(regex=pattern)).exception(timeout=WAIT_S)
    assert isinstance(error, EngineError)
    return str(error)


def test_a_panic_of_a_library_ends_its_request_alone(monkeypatch, caplog, new_compiler):
    compiler = new_compiler(VOCABULARY, isolate_compiles=False, num_compile_threads=1)
    with monkeypatch.context() as patched:
        patched.setattr(libraries, "create_backend", lambda *_: PanickingBackend())
        for pattern in ("a", "b"):
            assert "Panic: index out of bounds" in failure(compiler, pattern)
    compiler._runner._libraries._backends.clear()  # type: ignore[attr-defined]
    assert compiler.submit(Guide(regex="c")).result(timeout=WAIT_S).num_bytes > 0
    assert len([one for one in caplog.records if one.exc_info]) == 2


def test_a_grammar_that_cannot_be_kept_is_an_error(monkeypatch, new_compiler):
    compiler = new_compiler(VOCABULARY, isolate_compiles=False, num_compile_threads=1)

    def put(*_: Any) -> None:
        raise TypeError("no size")

    with monkeypatch.context() as patched:
        patched.setattr(compiler.cache, "put", put)
        assert "TypeError: no size" in failure(compiler, "a")
    assert compiler.submit(Guide(regex="a")).result(timeout=WAIT_S).num_bytes > 0


def test_a_failure_in_a_lane_reaches_the_caller(monkeypatch, new_compiler):
    compiler = new_compiler(VOCABULARY, isolate_compiles=True, num_compile_threads=1)

    def outcome(*_: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(lanes, "outcome", outcome)
    for pattern in ("a", "b"):
        assert "OSError: no more processes" in failure(compiler, pattern)


@pytest.mark.parametrize("can_tell", [True, False])
def test_a_lane_works_on_after_a_failure(can_tell: bool) -> None:
    told: list[tuple[int, str]] = []
    worked = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            raise Panic("zero")
        worked.set()

    def failed(item: int, error: BaseException) -> None:
        told.append((item, str(error)))
        if not can_tell:
            raise ValueError("nobody listens")

    lane: Lane[int] = Lane("test", work, failed, most_threads=1, most_waiting=2)
    assert lane.offer(0) and lane.offer(1)
    assert worked.wait(WAIT_S) and told == [(0, "zero")]
    [thread] = lane.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
