"""Compiles beside each other: shared, cancelled, stuck, counted, kept and closed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY
from one_compiler import compiler_of

from specguide.config import GuideConfig
from specguide.errors import (
    CompilerBusy,
    EngineError,
    GuideLimitExceeded,
    UnsupportedGuide,
)
from specguide.guide import Guide
from specguide.guided.backend import Rewritten, Written
from specguide.guided.backends import Backend, CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.guided.compiling import libraries
from specguide.guided.compiling.grammar_cache import GrammarCache
from specguide.guided.compiling.threads import MAX_ABANDONED
from specguide.tokenizer.vocabulary import Vocabulary

compiler = compiler_of(VOCABULARY, scope="function")


class SlowBackend:
    """A backend whose compile takes as long as the guide's regular expression says, in hundredths
    of a second."""

    native = False

    def __init__(self) -> None:
        self.num_compiles = 0

    def outline(self, written: Written, rewritten: Rewritten) -> None:
        return None

    def write(self, rewritten: Rewritten, limits: GuideConfig) -> Written:
        return Written(rewritten.kind, "regex", rewritten.value)

    def compile(self, written: Written, limits: GuideConfig) -> CompiledGrammar:
        self.num_compiles += 1
        time.sleep(len(written.text) / 100)
        return libraries.create_backend.real("llguidance", VOCABULARY).compile(
            Guide(regex="a"), limits
        )


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowBackend:
    backend = SlowBackend()

    def create_backend(name: str, vocabulary: Any) -> SlowBackend:
        return backend

    create_backend.real = libraries.create_backend  # type: ignore[attr-defined]
    monkeypatch.setattr(libraries, "create_backend", create_backend)
    return backend


def test_a_backend_that_is_stuck_does_not_refuse_the_others_grammars(slow, new_compiler):
    compiler = new_compiler(VOCABULARY, compile_timeout_s=0.5, num_compile_threads=4)
    wait([compiler.submit(Guide(regex="a" * (300 + i))) for i in range(MAX_ABANDONED)])
    assert compiler.compile(Guide(regex="b", backend="xgrammar"))
    with pytest.raises(CompilerBusy, match="4 grammars for llguidance, which this one needs"):
        compiler.compile(Guide(regex="b"))


def test_equal_guides_share_one_compile(slow: SlowBackend, compiler: GrammarCompiler) -> None:
    futures = [compiler.submit(Guide(regex="a" * 20)) for _ in range(8)]
    wait(futures)
    assert slow.num_compiles == 1 and len({id(future.result()) for future in futures}) == 1
    assert compiler.compile(Guide(regex="a" * 20)) is futures[0].result()
    compiler.compile(Guide(regex="a" * 21))
    compiler.compile(Guide(regex="a" * 20, backend="llguidance"))
    assert slow.num_compiles == 3


def test_a_callers_cancellation_is_its_own(slow: SlowBackend, compiler: GrammarCompiler) -> None:
    futures = [compiler.submit(Guide(regex="a" * 20)) for _ in range(2)]
    assert futures[0].cancel()
    assert futures[1].result().backend == "llguidance"


def test_facts_about_a_guide_are_kept_and_time_outs_are_not(slow, new_compiler):
    compiler = new_compiler(VOCABULARY, compile_timeout_s=0.2)
    for _ in range(2):
        with pytest.raises(UnsupportedGuide):
            compiler.compile(Guide(regex="(?:b(?=ba))*"))
    assert len(compiler.cache) == 1
    start = time.perf_counter()
    with pytest.raises(GuideLimitExceeded, match=r"compile_timeout_s \(0.2 s\)") as refusal:
        compiler.compile(Guide(regex="a" * 60))
    assert refusal.value.limit == "compile_timeout_s" and 0.15 < time.perf_counter() - start < 0.5
    assert len(compiler.cache) == 1
    deadline = time.perf_counter() + 5
    while len(compiler.cache) == 1 and time.perf_counter() < deadline:
        time.sleep(0.02)
    assert (
        compiler.compile(Guide(regex="a" * 60)).backend == "llguidance"
    )  # what came too late is there now


def test_a_library_is_loaded_outside_of_the_time_of_a_compile(monkeypatch, new_compiler):
    create = libraries.create_backend

    def create_slowly(name: str, vocabulary: Vocabulary) -> Backend:
        time.sleep(0.5 if name == "xgrammar" else 0.0)
        return create(name, vocabulary)

    create("xgrammar", VOCABULARY)  # which imports it
    monkeypatch.setattr(libraries, "create_backend", create_slowly)
    compiler = new_compiler(VOCABULARY, compile_timeout_s=0.3)
    loading = compiler.submit(Guide(regex="a", backend="xgrammar"))
    assert compiler.compile(Guide(regex="a", backend="llguidance")) and not loading.done()
    assert loading.result(10).backend == "xgrammar"


def test_slow_compiles_leave_room_for_others_up_to_a_number(slow, new_compiler):
    compiler = new_compiler(VOCABULARY, compile_timeout_s=0.1, num_compile_threads=1)
    late = [compiler.submit(Guide(regex="a" * (150 + i))) for i in range(MAX_ABANDONED)]
    wait(late)
    assert all(isinstance(future.exception(), GuideLimitExceeded) for future in late)
    with pytest.raises(CompilerBusy, match="still at it; try again"):
        compiler.compile(Guide(regex="b"))
    assert len(compiler.cache) == 0
    deadline = time.perf_counter() + 10
    while time.perf_counter() < deadline:
        time.sleep(0.1)
        if compiler.submit(Guide(regex="b")).exception() is None:
            break
    assert compiler.compile(Guide(regex="b")).backend == "llguidance"


def test_compiles_run_beside_each_other(slow, new_compiler):
    compiler = new_compiler(VOCABULARY, num_compile_threads=3)
    start = time.perf_counter()
    wait([compiler.submit(Guide(regex="a" * (40 + i))) for i in range(3)])
    assert time.perf_counter() - start < 0.8  # one after the other: 1.2 s


def test_a_broken_backend_ends_its_request_alone(
    slow: SlowBackend, compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = slow.compile
    monkeypatch.setattr(slow, "compile", lambda guide, limits: {}["nothing"])
    with pytest.raises(EngineError, match="compiling the regex failed: KeyError"):
        compiler.compile(Guide(regex="a"))
    assert len(compiler.cache) == 0
    monkeypatch.setattr(slow, "compile", sound)
    assert compiler.compile(Guide(regex="a"))


def test_closing_ends_what_waits_and_refuses_what_comes(slow: SlowBackend) -> None:
    others = set(threading.enumerate())  # of compilers that other tests have left
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(num_compile_threads=1))
    futures = [compiler.submit(Guide(regex="a" * (30 + i))) for i in range(3)]
    time.sleep(0.05)
    compiler.close()
    wait(futures, timeout=1)
    assert all("was closed" in str(future.exception()) for future in futures)
    with pytest.raises(EngineError, match="is closed"):
        compiler.compile(Guide(regex="a"))
    compiler.close()
    deadline = time.perf_counter() + 5
    while any(
        thread.name.startswith("grammar compile") for thread in set(threading.enumerate()) - others
    ):
        assert time.perf_counter() < deadline
        time.sleep(0.02)


def test_many_threads_may_submit(compiler: GrammarCompiler) -> None:
    futures: list[Future[CompiledGrammar]] = []

    def submit(seed: int) -> None:
        for i in range(20):
            futures.append(compiler.submit(Guide(json_schema={"enum": [(seed * i) % 7]})))

    threads = [threading.Thread(target=submit, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        all(future.result(timeout=20).backend == "llguidance" for future in futures)
        and len(compiler.cache) == 7
    )


class Sized:
    """A compiled grammar of a given size."""

    backend = "llguidance"

    def __init__(self, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self.used_bytes = 0

    def matcher(self) -> Any:
        raise AssertionError


def test_the_cache_keeps_to_its_budget(new_compiler):
    cache = GrammarCache(max_bytes=100)
    for key, size in (("a", 40), ("b", 40)):
        cache.put(key, Sized(size))
    assert cache.get("a") is not None  # now the most recently used
    cache.put("c", Sized(50))
    assert cache.get("b") is None and cache.get("a") is not None and cache.get("c") is not None
    cache.put("d", Sized(101))
    assert cache.get("d") is None and cache.num_bytes == 90 and len(cache) == 2
    cache.put("a", Sized(10))
    assert cache.num_bytes == 60
    grown = Sized(30)
    cache.put("e", grown)
    assert len(cache) == 3
    grown.used_bytes = 25
    assert cache.get("e") is grown and cache.num_bytes == 115
    cache.put("f", Sized(10))
    assert cache.num_bytes == 75 and cache.get("c") is None
    budget = new_compiler(VOCABULARY, cache_bytes=1)
    first = budget.compile(Guide(regex="a"))
    assert budget.compile(Guide(regex="a")) is not first and len(budget.cache) == 0


def test_a_grammar_takes_more_where_it_was_used(new_compiler):
    """Its matchers learn states, and are kept for those to come."""
    compiler = new_compiler(VOCABULARY, backend="llguidance")
    grammar = compiler.compile(Guide(regex="a+"))
    counted = [compiler.cache.num_bytes]
    for num_at_once in (1, 1, 2, 4):
        matchers = [grammar.matcher() for _ in range(num_at_once)]
        assert all(matcher.accept(ord("a")) for matcher in matchers)
        del matchers
        assert compiler.compile(Guide(regex="a+")) is grammar
        counted.append(compiler.cache.num_bytes)
    assert counted[0] < counted[1] == counted[2] < counted[3] < counted[4]


EXIT = """
import sys, time
sys.path.insert(0, {tests!r})
from byte_vocabulary import VOCABULARY
from specguide.config import GuideConfig
from specguide.errors import GuideLimitExceeded
from specguide.guided.compile import GrammarCompiler
from specguide.guide import Guide

slow = {{f"p{{i}}": {{"enum": [f"{{i}} {{j}} " * 5 for j in range(120)]}} for i in range(150)}}
config = GuideConfig(compile_timeout_s=0.3, backend="xgrammar", max_source_bytes=1 << 24)
compiler = GrammarCompiler(VOCABULARY, config)
try:
    compiler.compile(Guide(json_schema={{"type": "object", "properties": slow}}))
except GuideLimitExceeded as error:
    print(error.limit)
"""


def test_no_exit_waits_for_a_compile() -> None:
    source = EXIT.format(tests=str(Path(__file__).parents[1] / "support"))
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "compile_timeout_s"), done.stderr
    assert time.perf_counter() - start < 60


def test_a_compile_is_timed_by_who_compiles(new_compiler):
    compiler = new_compiler(VOCABULARY)
    first = compiler.submit(Guide(regex="[a-z]{2,5}"))
    first.result()
    time.sleep(0.05)
    again = compiler.submit(Guide(regex="[a-z]{2,5}"))
    assert again.done() and 0 < again.took_s < first.took_s
    refused = compiler.submit(Guide(regex="(a"))
    assert refused.exception() and refused.took_s > 0
