"""The grammar compiler: choice of backend, limits of every kind of guide, cache, threads,
time-outs, exit."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from byte_vocabulary import VOCABULARY, takes
from grammar_backends import WHOLE

from specguide.config import EngineConfig, GuideConfig
from specguide.engine import Engine
from specguide.errors import (
    CompilerBusy,
    EngineError,
    GuideLimitExceeded,
    InvalidGuide,
    InvalidParams,
    UnsupportedGuide,
)
from specguide.guide import Guide
from specguide.guided.backend import Rewritten, Written
from specguide.guided.backends import Backend, CompiledGrammar, backend_names
from specguide.guided.compile import GrammarCompiler, backend_report
from specguide.guided.compiling import libraries
from specguide.guided.compiling.threads import MAX_ABANDONED
from specguide.guided.grammar_cache import GrammarCache
from specguide.tokenizer.vocabulary import Vocabulary

TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<a>",
        "end": "</a>",
        "content": {
            "type": "json_schema",
            "json_schema": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    },
}
COUNTED = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in "abc"},
    "maxProperties": 2,
    "additionalProperties": False,
}
CHOSEN = (
    (Guide(json_schema={"type": "integer"}), "llguidance", "3", "x"),
    (Guide(json_schema='{"type": "integer"}'), "llguidance", "3", "x"),
    (Guide(json_schema=True), "llguidance", '["x"]', "x"),
    (Guide(json_schema=COUNTED), "llguidance", '{"a":1,"c":2}', '{"a":1,"b":1,"c":1}'),
    (Guide(json_object=True), "llguidance", '{"a":[]}', "[]"),
    (Guide(regex="a+|b"), "llguidance", "aa", "ab"),
    (Guide(choice=["yes", "no", "né\n"]), "llguidance", "né\n", "y"),
    (Guide(grammar='root ::= x "b"\nx ::= [a-c]*'), "xgrammar", "acb", "a"),
    (Guide(grammar='start: A "b"\nA: /a+/'), "llguidance", "aab", "b"),
    (Guide(structural_tag=TAG), "llguidance", '<a>{"a":1}</a>', '<a>{"a":"x"}</a>'),
)


@pytest.fixture
def compiler() -> Any:
    made = GrammarCompiler(VOCABULARY, GuideConfig())
    yield made
    made.close()


class SlowBackend:
    """A backend whose compile takes as long as the guide's regular expression says, in hundredths
    of a second."""

    def __init__(self, name: str) -> None:
        self.name, self.native, self.reason = name, False, "it is a test's"
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
    backend = SlowBackend("llguidance")

    def create_backend(name: str, vocabulary: Any) -> SlowBackend:
        return backend

    create_backend.real = libraries.create_backend  # type: ignore[attr-defined]
    monkeypatch.setattr(libraries, "create_backend", create_backend)
    return backend


@pytest.mark.parametrize(
    ("guide", "backend", "taken", "refused"), CHOSEN, ids=lambda value: str(value)[:40]
)
def test_auto_takes_the_first_backend_that_enforces_the_guide(
    compiler: GrammarCompiler, guide: Guide, backend: str, taken: str, refused: str
) -> None:
    grammar = compiler.compile(guide)
    assert grammar.backend == backend and grammar.num_bytes > 0
    assert takes(grammar, taken) and not takes(grammar, refused)


def test_an_explicit_backend_is_used_or_refused(compiler: GrammarCompiler) -> None:
    for name in WHOLE:
        assert (
            compiler.compile(Guide(json_schema={"type": "integer"}, backend=name)).backend == name
        )
    ranged = {
        "type": "object",
        "properties": {"a": {"type": "integer", "multipleOf": 7, "minimum": 3}},
    }
    assert compiler.compile(Guide(json_schema=ranged)).backend == "llguidance"
    with pytest.raises(UnsupportedGuide, match="multipleOf at /properties/a/multipleOf") as refusal:
        compiler.compile(Guide(json_schema=ranged, backend="xgrammar"))
    assert (refusal.value.keyword, refusal.value.path) == ("multipleOf", "/properties/a/multipleOf")
    configured = GrammarCompiler(VOCABULARY, GuideConfig(backend="xgrammar"))
    assert configured.compile(Guide(regex="a+")).backend == "xgrammar"
    configured.close()


def test_a_refusal_says_why_of_every_backend(compiler: GrammarCompiler) -> None:
    with pytest.raises(
        UnsupportedGuide, match="llguidance and xgrammar: multipleOf at /items/not/multipleOf"
    ) as refusal:
        compiler.compile(Guide(json_schema={"items": {"not": {"multipleOf": 0.5}}}))
    assert (refusal.value.keyword, refusal.value.path) == ("multipleOf", "/items/not/multipleOf")
    overlapping = {
        "patternProperties": {"^(?:a|b)*a(?:a|b){12}$": {"type": "integer"}, "b": {"minimum": 3}}
    }
    with pytest.raises(
        UnsupportedGuide, match=r"llguidance: .*disjoint.*; xgrammar: patternProperties at"
    ):
        compiler.compile(Guide(json_schema=overlapping))


def test_malformed_guides_are_refused(compiler: GrammarCompiler) -> None:
    for guide, words in (
        (Guide(json_schema={"type": "nonsense"}), "type at /type"),
        (Guide(regex="a("), "missing"),
        (Guide(grammar="nonsense"), "neither EBNF"),
        (Guide(grammar="root ::= nowhere"), "malformed"),
        (Guide(grammar="start: nowhere"), "malformed"),
        (Guide(structural_tag={}), "format"),
        (Guide(json_schema={"enum": []}), "no value at all"),
    ):
        with pytest.raises(InvalidGuide, match=words) as refusal:
            compiler.compile(guide)
        assert not isinstance(refusal.value, UnsupportedGuide)


def test_grammars_are_held_to_the_same_standard(compiler: GrammarCompiler) -> None:
    with pytest.raises(UnsupportedGuide, match="lookahead"):
        compiler.compile(Guide(grammar='root ::= "a" (="b") "c"'))
    assert takes(compiler.compile(Guide(grammar='root ::= "(=" [(=]')), "(=(")
    for lark in ("start: /a^b/", 'start: %json {"not": {}}', "start: /a$/"):
        with pytest.raises(UnsupportedGuide, match="Lark"):
            compiler.compile(Guide(grammar=lark, backend="xgrammar"))
    inside = compiler.compile(Guide(grammar='start: "<" %json {"not": {"type": "string"}} ">"'))
    assert takes(inside, "<1>") and not takes(inside, '<"a">')
    with pytest.raises(UnsupportedGuide, match="uniqueItems"):
        compiler.compile(Guide(grammar='start: %json {"type": "array", "uniqueItems": true}'))
    content = {"type": "json_schema", "json_schema": {"not": {"type": "null"}}}
    tag = {**TAG, "format": {**TAG["format"], "content": content}}
    assert not takes(compiler.compile(Guide(structural_tag=tag)), "<a>null</a>")
    tag = {
        **TAG,
        "format": {**TAG["format"], "content": {"type": "regex", "pattern": "(?:b(?=a))*"}},
    }
    with pytest.raises(UnsupportedGuide, match="lookahead"):
        compiler.compile(Guide(structural_tag=tag))


DEEP: Any = {}
for _ in range(80):
    DEEP = {"properties": {"a": DEEP}}


@pytest.mark.parametrize(
    "guide",
    [
        Guide(json_schema=DEEP),
        Guide(regex="(" * 200 + "a" + ")" * 200),
        Guide(choice=["[" * 200]),
        Guide(grammar="root ::= " + "(" * 200 + '"a"' + ")" * 200),
        Guide(structural_tag={**TAG, "more": DEEP}),
        Guide(grammar="start: " + "(" * 200 + '"a"' + ")" * 200),
    ],
    ids=lambda guide: guide.kind,
)
def test_every_kind_of_guide_is_limited_in_depth_and_size(
    compiler: GrammarCompiler, guide: Guide
) -> None:
    small = GrammarCompiler(VOCABULARY, GuideConfig(max_source_bytes=100))
    with pytest.raises(GuideLimitExceeded, match="max_source_bytes") as refusal:
        small.compile(guide)
    assert refusal.value.limit == "max_source_bytes"
    small.close()
    if guide.kind == "choice":  # its options are text, not structure
        assert compiler.compile(guide)
        return
    with pytest.raises(GuideLimitExceeded, match="max_depth") as refusal:
        compiler.compile(guide)
    assert refusal.value.limit == "max_depth"


@pytest.mark.parametrize(
    ("guide", "limit"),
    [
        (Guide(json_schema={"enum": list(range(300))}), "max_values"),
        (Guide(choice=list(map(str, range(300)))), "max_values"),
        (
            Guide(
                grammar="".join(f"r{i} ::= r{i + 1}\n" for i in range(300))
                + 'r300 ::= "a"\nroot ::= r0'
            ),
            "max_rules",
        ),
        (
            Guide(
                grammar="".join(f"r{i}: r{i + 1}\n" for i in range(300)) + 'r300: "a"\nstart: r0'
            ),
            "max_rules",
        ),
        (
            Guide(
                grammar="// root ::= in EBNF\n"
                + "".join(f"r{i}: r{i + 1}\n" for i in range(300))
                + 'r300: "a"\nstart: r0'
            ),
            "max_rules",
        ),
    ],
    ids=["schema", "choice", "EBNF", "Lark", "Lark with a comment"],
)
def test_what_a_guide_holds_is_counted(compiler: GrammarCompiler, guide: Guide, limit: str) -> None:
    assert compiler.compile(guide)
    small = GrammarCompiler(VOCABULARY, GuideConfig(max_values=200, max_rules=200))
    with pytest.raises(GuideLimitExceeded, match=limit) as refusal:
        small.compile(guide)
    assert refusal.value.limit == limit
    small.close()


@pytest.mark.parametrize(
    ("guide", "words"),
    [
        (Guide(regex="a" * 70_000), "70000 characters"),
        (
            Guide(json_schema={"oneOf": [{"const": i} for i in range(3000)]}),
            "oneOf at /oneOf takes more than",
        ),
        (
            Guide(
                json_schema={
                    "$ref": "#/$defs/d0",
                    "$defs": {
                        "d5000": {"type": "null"},
                        **{
                            f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}
                            for i in range(5000)
                        },
                    },
                }
            ),
            "4000 defini",
        ),
    ],
    ids=["regex", "oneOf", "definitions"],
)
def test_what_would_take_too_long_or_too_deep_is_refused(
    compiler: GrammarCompiler, guide: Guide, words: str
) -> None:
    with pytest.raises(InvalidGuide, match=words):
        compiler.compile(guide)


def test_the_longest_chains_that_are_taken_fit_on_the_stack(compiler: GrammarCompiler) -> None:
    rules = "\n".join(f'r{i}: r{i + 1} "b"' for i in range(990))
    assert compiler.compile(Guide(grammar=f'start: r0\n{rules}\nr990: "a"'))
    assert compiler.compile(
        Guide(
            json_schema={
                "$ref": "#/$defs/d0",
                "$defs": {
                    "d3990": {"type": "null"},
                    **{
                        f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}
                        for i in range(3990)
                    },
                },
            }
        )
    )


def test_a_backend_that_is_stuck_does_not_refuse_the_others_grammars(slow: SlowBackend) -> None:
    compiler = GrammarCompiler(
        VOCABULARY, GuideConfig(compile_timeout_s=0.5, num_compile_threads=4)
    )
    wait([compiler.submit(Guide(regex="a" * (300 + i))) for i in range(MAX_ABANDONED)])
    assert compiler.compile(Guide(regex="b", backend="xgrammar"))
    with pytest.raises(CompilerBusy, match="4 grammars for llguidance, which this one needs"):
        compiler.compile(Guide(regex="b"))
    compiler.close()


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


def test_facts_about_a_guide_are_kept_and_time_outs_are_not(slow: SlowBackend) -> None:
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(compile_timeout_s=0.2))
    for _ in range(2):
        with pytest.raises(UnsupportedGuide):
            compiler.compile(Guide(regex="(?:b(?=a))*"))
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
    compiler.close()


def test_a_library_is_loaded_outside_of_the_time_of_a_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = libraries.create_backend

    def create_slowly(name: str, vocabulary: Vocabulary) -> Backend:
        time.sleep(0.5 if name == "xgrammar" else 0.0)
        return create(name, vocabulary)

    create("xgrammar", VOCABULARY)  # which imports it
    monkeypatch.setattr(libraries, "create_backend", create_slowly)
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(compile_timeout_s=0.3))
    loading = compiler.submit(Guide(regex="a", backend="xgrammar"))
    assert compiler.compile(Guide(regex="a", backend="llguidance")) and not loading.done()
    assert loading.result(10).backend == "xgrammar"
    compiler.close()


def test_slow_compiles_leave_room_for_others_up_to_a_number(slow: SlowBackend) -> None:
    compiler = GrammarCompiler(
        VOCABULARY, GuideConfig(compile_timeout_s=0.1, num_compile_threads=1)
    )
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
    compiler.close()


def test_compiles_run_beside_each_other(slow: SlowBackend) -> None:
    compiler = GrammarCompiler(VOCABULARY, GuideConfig(num_compile_threads=3))
    start = time.perf_counter()
    wait([compiler.submit(Guide(regex="a" * (40 + i))) for i in range(3)])
    assert time.perf_counter() - start < 0.8  # one after the other: 1.2 s
    compiler.close()


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

    def matcher(self) -> Any:
        raise AssertionError


def test_the_cache_keeps_to_its_budget() -> None:
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
    budget = GrammarCompiler(VOCABULARY, GuideConfig(cache_bytes=1))
    first = budget.compile(Guide(regex="a"))
    assert budget.compile(Guide(regex="a")) is not first and len(budget.cache) == 0
    budget.close()


def test_an_unknown_backend_is_refused_where_guides_are_compiled(
    compiler: GrammarCompiler,
) -> None:
    words = 'guide backend \'outlines\' is unknown; use "auto", "llguidance"'
    for guide in (Guide(regex="a", backend="outlines"), Guide(matcher=list, backend="outlines")):
        with pytest.raises(InvalidGuide, match=words) as caught:
            compiler.compile(guide)
        assert caught.value.param == "backend"


def test_a_configuration_of_an_unknown_backend_is_refused_before_a_model_is_loaded() -> None:
    config, words = GuideConfig(backend="outlines"), "known: auto, llguidance, xgrammar"
    for begin in (
        lambda: GrammarCompiler(VOCABULARY, config),
        lambda: Engine(EngineConfig("/nowhere", guide=config)),
    ):
        with pytest.raises(InvalidParams, match=words) as caught:
            begin()
        assert caught.value.param == "guide_backend"


def test_the_report_names_every_backend() -> None:
    report = backend_report()
    assert [status.name for status in report] == list(backend_names())
    assert all(status.version and (status.native or status.reason) for status in report)


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


def test_a_compile_is_timed_by_who_compiles():
    compiler = GrammarCompiler(VOCABULARY, GuideConfig())
    first = compiler.submit(Guide(regex="[a-z]{2,5}"))
    first.result()
    time.sleep(0.05)
    again = compiler.submit(Guide(regex="[a-z]{2,5}"))
    assert again.done() and 0 < again.took_s < first.took_s
    refused = compiler.submit(Guide(regex="(a"))
    assert refused.exception() and refused.took_s > 0
    compiler.close()
