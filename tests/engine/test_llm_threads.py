"""LLM in several threads, and Ctrl-C in it: what was asked is right, and what is left behind is
nothing."""

from __future__ import annotations

import _thread
import gc
import random
import signal
import threading
import time
import weakref

import pytest
from random_requests import cases
from tiny_engine import is_clean, make

from specguide import LLM, Guide, SamplingParams
from specguide.engine.executors import LocalExecutor
from specguide.errors import EngineError, UnsupportedGuide

ENDLESS = SamplingParams(max_tokens=480, ignore_eos=True)
LONG = SamplingParams(max_tokens=100, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(folders):
    llm = make(folders, max_batch_size=8)
    yield llm
    llm.close()


def in_threads(works) -> list:
    """What each of some calls in threads of their own returns, or raises."""
    results: list = [None] * len(works)

    def run(index):
        try:
            results[index] = works[index]()
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_each_thread_gets_what_it_would_get_alone(llm):
    prompts, params = cases(31, 24)
    alone = llm.generate(prompts, params)
    results = in_threads(
        [lambda one=one: llm.generate([prompts[one]], params[one]) for one in range(len(prompts))]
    )
    for result, expected in zip(results, alone, strict=True):
        assert [(out.text, out.token_ids, out.error) for out in result] == [
            (expected.text, expected.token_ids, expected.error)
        ]
    assert is_clean(llm._engine)


def test_threads_run_together_and_none_is_starved(llm):
    ended: list = []
    long = lambda: llm.generate("abc", LONG) and ended.append("long")  # noqa: E731
    short = lambda: llm.generate("abc", SamplingParams(max_tokens=3)) and ended.append("short")  # noqa: E731
    before = llm.stats().iterations
    in_threads([long] * 4 + [short] * 4)
    assert ended[:4] == ["short"] * 4
    assert llm.stats().iterations - before < 2 * 100 + 20  # one after another they take 4 times 100


def test_an_engine_in_use_refuses_another_thread(llm):
    engine = llm._engine
    request = engine.add([1, 2], SamplingParams(max_tokens=2))
    with engine.in_use:
        results = in_threads(
            [
                engine.step,
                engine.close,
                lambda: engine.cancel(request),
                lambda: engine.add([1], SamplingParams()),
            ]
        )
    assert all(
        isinstance(error, EngineError) and "one call at a time" in str(error) for error in results
    )
    while engine.num_unfinished:
        engine.step()


def test_a_call_from_within_an_iteration_is_refused(llm):
    def processor(output_ids, logits):
        llm.generate("abc", SamplingParams(max_tokens=1))
        return logits

    (out,) = llm.generate("abc", SamplingParams(max_tokens=3, logits_processors=[processor]))
    assert "no call within another" in str(out.error) and is_clean(llm._engine)


def interrupted_after(seconds: float, call) -> bool:
    """Whether Ctrl-C came while it ran."""
    timer = threading.Timer(seconds, _thread.interrupt_main)
    try:
        try:
            timer.start()
            call()
            timer.join()
            time.sleep(1.0)  # where the interrupt comes, if only now
        except KeyboardInterrupt:
            return True
    finally:
        timer.join()
    return False


def test_ctrl_c_cancels_what_was_asked(llm):
    rng = random.Random(3)
    (expected,) = llm.generate("abc", SamplingParams(max_tokens=20, ignore_eos=True))
    for _ in range(5):
        assert interrupted_after(
            0.02 + 0.1 * rng.random(), lambda: llm.generate(["abc", "x"] * 6, ENDLESS)
        )
        assert is_clean(llm._engine)
        (out,) = llm.generate("abc", SamplingParams(max_tokens=20, ignore_eos=True))
        assert (out.text, out.error) == (expected.text, None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_another_thread_generates(llm):
    (expected,) = llm.generate("abc", LONG)
    results: list = []
    other = threading.Thread(target=lambda: results.extend(llm.generate("abc", LONG)))
    other.start()
    assert interrupted_after(0.05, lambda: llm.generate(["x"] * 4, ENDLESS))
    other.join(60)
    assert (results[0].text, results[0].error) == (expected.text, None) and is_clean(llm._engine)


def test_ctrl_c_does_not_wait_for_a_compile(llm, monkeypatch):
    from specguide.guided.grammar_future import GrammarFuture

    monkeypatch.setattr(
        llm._engine._admission.compiler, "submit", lambda guide, room: GrammarFuture()
    )
    start = time.perf_counter()
    assert interrupted_after(
        0.1, lambda: llm.generate("abc", SamplingParams(guide=Guide(regex="a")))
    )
    assert time.perf_counter() - start < 5 and is_clean(llm._engine)


def test_a_second_ctrl_c_does_not_wait_for_the_iteration(llm):
    is_in = threading.Event()

    def stuck(output_ids, logits):
        is_in.set()
        while True:
            time.sleep(0.01)

    def press():
        is_in.wait(20)
        _thread.interrupt_main()
        time.sleep(0.1)
        _thread.interrupt_main()

    presses = threading.Thread(target=press)
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        llm.generate("abc", SamplingParams(max_tokens=3, logits_processors=[stuck]))
    presses.join()
    assert is_clean(llm._engine)
    (out,) = llm.generate("abc", SamplingParams(max_tokens=3))
    assert out.error is None


def test_an_exit_within_an_iteration_leaves_a_clean_engine(llm):
    def leave(output_ids, logits):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        llm.generate(["abc", "x"], [SamplingParams(logits_processors=[leave]), SamplingParams()])
    assert is_clean(llm._engine)
    (out,) = llm.generate("abc", SamplingParams(max_tokens=3))
    assert out.error is None


def test_closing_ends_what_other_threads_wait_for(folders):
    llm = make(folders)
    results: list = []
    other = threading.Thread(target=lambda: results.extend(llm.generate("abc", ENDLESS)))
    other.start()
    while not llm.stats().num_running:
        time.sleep(0.005)
    llm.close()
    other.join(20)
    assert [out.finish_reason for out in results] == ["abort"]


def test_an_engine_that_refused_a_guide_is_forgotten_once_closed(folders):
    """The error, which the grammar cache keeps, holds no frames: the next engine finds the memory
    free."""
    llm = make(folders)
    engine = weakref.ref(llm._engine)
    refused = Guide(json_schema={"patternProperties": {"(a+)\\1": {"type": "integer"}}})
    for _ in range(2):
        (out,) = llm.generate("abc", SamplingParams(max_tokens=3, guide=refused))
        assert isinstance(out.error, UnsupportedGuide) and out.error.__traceback__ is None
    llm.close()
    del llm
    gc.collect()
    assert engine() is None


def test_nothing_is_left_of_an_engine_that_failed_once_it_is_closed(folders, monkeypatch):
    llm = LLM(folders[0], max_model_len=64)
    engine = weakref.ref(llm._engine)

    def fail(*batch):
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(LocalExecutor, "execute", fail)
    assert "out of ideas" in str(llm.generate(["abc"])[0].error)
    llm.close()
    del llm
    gc.collect()
    assert engine() is None
