"""Compiles in processes that can be killed: limits, lanes, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from slow_libraries import SERVE

from specguide.config import GuideConfig
from specguide.errors import (
    CompilerBusy,
    EngineError,
    GuideLimitExceeded,
    InvalidGuide,
    UnsupportedGuide,
)
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling import lanes, sandbox
from specguide.guided.compiling.sandbox import Passed, Sandbox

CONFIG = GuideConfig(isolate_compiles=True, compile_timeout_s=20.0)


@pytest.fixture(scope="module", autouse=True)
def slow_libraries() -> Iterator[None]:
    """Make libraries slow in the processes that are started, not in this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "_SERVE", SERVE)
        yield


def slow(number: int) -> Guide:
    return Guide(choice=[f"slow! {number}"])


def quick(number: int) -> Guide:
    return Guide(json_schema={"type": "object", "properties": {f"p{number}": {"type": "integer"}}})


def processes() -> set[int]:
    """Fork servers and workers that live."""
    found = set()
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and b"fork_server" in (path / "cmdline").read_bytes():
                found.add(int(path.name))
        except OSError:
            pass
    return found


def until(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def compiler(slow_libraries: None) -> Iterator[GrammarCompiler]:
    made = GrammarCompiler(VOCABULARY, CONFIG)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("guide", "backend", "taken", "refused"),
    [
        (Guide(json_schema={"type": "integer"}), "llguidance", "3", "x"),
        (
            Guide(
                json_schema={
                    "type": "object",
                    "properties": {name: {"type": "integer"} for name in "abc"},
                    "maxProperties": 2,
                    "additionalProperties": False,
                }
            ),
            "llguidance",
            '{"a":1,"c":2}',
            '{"a":1,"b":1,"c":1}',
        ),
        (Guide(json_object=True), "llguidance", '{"a":[]}', "[]"),
        (Guide(regex="a+|é"), "llguidance", "é", "ab"),
        (Guide(choice=["yes", "né\n"]), "llguidance", "né\n", "y"),
        (Guide(grammar='root ::= x "b"\nx ::= [a-c]*'), "xgrammar", "acb", "a"),
        (Guide(grammar='start: A "b"\nA: /a+/'), "llguidance", "aab", "b"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_passes_is_the_same_grammar(compiler, guide, backend, taken, refused):
    grammar = compiler.compile(guide)
    assert grammar.backend == backend and takes(grammar, taken) and not takes(grammar, refused)


def test_distinct_items_are_guarded_here(compiler):
    schema = {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes(grammar, '["b", "a"]') and not takes(grammar, '["b", "b"]')


def test_refusals_come_over_whole(compiler):
    few = {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3}
    with pytest.raises(UnsupportedGuide, match="uniqueItems at /uniqueItems") as refusal:
        compiler.compile(Guide(json_schema=few))
    assert (refusal.value.keyword, refusal.value.path) == ("uniqueItems", "/uniqueItems")
    with pytest.raises(InvalidGuide, match="malformed") as malformed:
        compiler.compile(Guide(grammar="root ::= nowhere"))
    assert malformed.value.param == "grammar" and not isinstance(malformed.value, UnsupportedGuide)
    with pytest.raises(GuideLimitExceeded, match="max_depth") as limited:
        compiler.compile(Guide(regex="(" * 200 + "a" + ")" * 200))
    assert limited.value.limit == "max_depth"
    tools = 'start: %json {"type": "null"} | %json {"type": "array", "uniqueItems": true}'
    with pytest.raises(UnsupportedGuide) as second:
        compiler.compile(Guide(grammar=tools))
    assert second.value.part == 1


def test_time_and_memory_have_limits_and_a_crash_is_one_requests(new_compiler):
    """Such an end is not kept as a fact about the guide, and others are compiled meanwhile and
    after."""
    compiler = new_compiler(VOCABULARY, isolate_compiles=True, compile_timeout_s=1.0)
    for word, limit in (
        ("slow!", "compile_timeout_s"),
        ("large!", "max_compile_bytes"),
        ("abort!", "max_compile_bytes"),
    ):
        late = compiler.submit(Guide(choice=[word]))
        assert compiler.compile(quick(0))
        error = late.exception(timeout=30)
        assert (
            isinstance(error, GuideLimitExceeded) and error.limit == limit and limit in str(error)
        )
        assert len(compiler.cache) == 1
    with pytest.raises(UnsupportedGuide, match="crashes on this choice"):
        compiler.compile(Guide(choice=["crash!"]))


def test_a_real_attack_runs_into_a_limit(new_compiler):
    compiler = new_compiler(VOCABULARY, isolate_compiles=True, compile_timeout_s=2.0)
    with pytest.raises(InvalidGuide):
        compiler.compile(Guide(json_schema={"type": "integer", "multipleOf": 99_999_989}))


def test_slow_guides_deny_quick_ones_nothing(monkeypatch, new_compiler):
    """Many slow ones: a few are at work, a few wait, others are told to come again; quick ones pass
    all of them by."""
    monkeypatch.setattr(lanes, "QUICK_S", 0.3)
    monkeypatch.setattr(lanes, "MOST_SLOW_WAITING", 2)
    compiler = new_compiler(VOCABULARY, isolate_compiles=True, num_compile_threads=1)
    assert compiler.compile(quick(0))
    attack = [compiler.submit(slow(number)) for number in range(8)]
    served = [compiler.submit(quick(number)) for number in range(20, 26)]
    assert all(takes(future.result(timeout=20), "{}") for future in served)
    refused = [future for future in attack if future.done()]
    assert len(refused) == 5 and all(
        isinstance(future.exception(), CompilerBusy) for future in refused
    )
    for future in attack:
        future.cancel()
    again = compiler.submit(quick(40))
    assert again.result(timeout=20)


def test_nobody_is_compiled_for_who_has_left(monkeypatch, new_compiler):
    monkeypatch.setattr(lanes, "QUICK_S", 0.3)
    compiler = new_compiler(VOCABULARY, isolate_compiles=True, num_compile_threads=1)
    assert compiler.compile(quick(0))
    left = [compiler.submit(slow(number)) for number in range(3)]
    for future in left:
        future.cancel()
    until(lambda: not compiler._jobs)


def test_too_many_quick_ones(monkeypatch, new_compiler):
    monkeypatch.setattr(lanes, "MOST_QUICK_WAITING", 3)
    compiler = new_compiler(VOCABULARY, isolate_compiles=True, num_compile_threads=1)
    futures = [compiler.submit(quick(number)) for number in range(12)]
    wait(futures, timeout=30)
    busy = [future for future in futures if isinstance(future.exception(), CompilerBusy)]
    assert 0 < len(busy) < 12 and "try again" in str(busy[0].exception())
    assert compiler.compile(quick(11)) and len(compiler.cache) == 12 - len(busy) + (
        futures[11] in busy
    )


def test_a_worker_serves_many_guides_and_is_replaced_when_it_dies():
    box = Sandbox(VOCABULARY, CONFIG)
    for number in range(3):
        assert isinstance(box.start(quick(number), "auto").wait(20), Passed)
    assert box._server is not None
    [worker] = Path(f"/proc/{box._server.pid}/task/{box._server.pid}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
    until(lambda: not Path(f"/proc/{worker}").exists())
    assert isinstance(box.start(quick(3), "auto").wait(20), Passed)
    box._server.kill()
    box._server.wait()
    assert isinstance(box.start(quick(4), "auto").wait(20), Passed)
    box.close()


@pytest.mark.parametrize("last_words", [b"", b'{"signal": 9}\n'])
def test_a_worker_that_ends_before_it_reads_a_guide_is_replaced(last_words):
    """The worker ends between the look at whether it is idle and the guide."""
    box = Sandbox(VOCABULARY, CONFIG)
    assert isinstance(box.start(quick(0), "auto").wait(20), Passed)
    for _ in range(3):
        ours, theirs = socket.socketpair()
        box._idle = [ours]
        trial = box.start(quick(1), "auto")
        theirs.sendall(last_words)
        theirs.close()
        assert isinstance(trial.wait(20), Passed)
    box.close()


def test_what_passed_is_compiled_from_the_same_text():
    box = Sandbox(VOCABULARY, CONFIG)
    passed = box.start(Guide(json_schema={"type": "number", "minimum": 3}), "auto").wait(20)
    box.close()
    assert isinstance(passed, Passed) and passed.backend == "llguidance"
    assert passed.written.form == "lark" and passed.written.text.startswith("start: %lark {")


def test_closing_leaves_nothing_and_ends_what_is_under_way():
    before = processes()
    compiler = GrammarCompiler(VOCABULARY, CONFIG)
    assert compiler.compile(quick(0))
    late = [compiler.submit(slow(number)) for number in range(2)]
    time.sleep(0.2)
    assert processes() - before
    compiler.close()
    assert all("was closed" in str(future.exception(timeout=1)) for future in late)
    until(lambda: not processes() - before)
    with pytest.raises(EngineError, match="is closed"):
        compiler.compile(quick(1))


EXIT = """
import sys, time
sys.path.insert(0, {tests!r})
from byte_vocabulary import VOCABULARY
from specguide.config import GuideConfig
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling import sandbox
from specguide.guide import Guide
from slow_libraries import SERVE

sandbox._SERVE = SERVE
compiler = GrammarCompiler(VOCABULARY, GuideConfig(isolate_compiles=True))
compiler.compile(Guide(regex="a"))
compiler.submit(Guide(choice=["slow!"]))
time.sleep(0.2)
print(compiler._runner._sandbox._server.pid, flush=True)
if {waits}:
    time.sleep(60)
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_no_process_outlives_the_interpreter(is_killed):
    source = EXIT.format(tests=str(Path(__file__).parents[1] / "support"), waits=is_killed)
    with subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        children = (
            Path(f"/proc/{server}/task/{server}/children").read_text().split() if is_killed else []
        )
        if is_killed:
            process.kill()
        assert process.wait(20) == (-signal.SIGKILL if is_killed else 0)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (server, *children)))
    assert bool(children) == is_killed
