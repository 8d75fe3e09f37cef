"""The asyncio engine: streams equal blocking outputs, leaving cancels, failures end all, closing is
bounded."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import threading
import time

import pytest
from async_engines import ENDLESS, collect, start, until
from random_requests import cases
from tiny_engine import generate, is_clean, make

from specguide import Guide, SamplingParams
from specguide.engine import AsyncEngine
from specguide.errors import EngineError, InvalidParams, QueueFull, RequestTimeout
from specguide.guided.grammar_future import GrammarFuture


@pytest.mark.parametrize("lag", [0, 1])
def test_many_streams_equal_the_blocking_outputs(folders, lag):
    prompts, params = cases(21, 40, temperature=0.7)
    blocking = generate(make(folders, lag=lag, max_batch_size=4), prompts, params)

    async def main():
        async with start(folders, lag) as engine:
            return await asyncio.gather(
                *(
                    collect(engine.generate(prompt, param), pause_s=0.01 * (number % 3))
                    for number, (prompt, param) in enumerate(zip(prompts, params, strict=True))
                )
            )

    for (streamed,), out in zip(asyncio.run(main()), blocking, strict=True):
        text, tokens, last = streamed
        assert (text, tokens, last.finish_reason, last.error) == (
            out.text,
            out.token_ids,
            out.finish_reason,
            None,
        )
        assert (
            last.metrics.output_tokens
            == len(tokens)
            == 1
            + sum(
                (accepted + 1) * count
                for accepted, count in enumerate(last.metrics.accepted_histogram)
            )
        )


def test_samples_and_stop_strings(folders):
    params = SamplingParams(
        max_tokens=30, temperature=1.0, seed=3, n=3, ignore_eos=True, stop=["a", "e", "i"]
    )
    (blocking,) = generate(make(folders), "some text", params)

    async def main():
        async with start(folders) as engine:
            return await collect(engine.generate("some text", params))

    streamed = asyncio.run(main())
    assert [(text, tokens) for text, tokens, _ in streamed] == [
        (o.text, o.token_ids) for o in blocking.samples
    ]
    assert [last.stop_reason for *_, last in streamed] == [
        out.stop_reason for out in blocking.samples
    ]


def test_deltas_carry_the_log_probabilities_of_their_tokens(folders):
    params = SamplingParams(max_tokens=20, logprobs=2, ignore_eos=True)
    (blocking,) = generate(make(folders), "some text", params)

    async def main():
        async with start(folders) as engine:
            return [delta async for delta in engine.generate("some text", params, priority=2)]

    deltas = asyncio.run(main())
    assert all(len(delta.logprobs) == len(delta.token_ids) for delta in deltas)
    assert tuple(entry for delta in deltas for entry in delta.logprobs) == blocking.logprobs


def test_random_cancels_lose_no_slot_and_no_page(folders):
    prompts, params = cases(22, 60)
    rng = random.Random(5)

    async def leave(engine, prompt, param, how):
        stream = engine.generate(prompt, param)
        if how == "task":
            task = asyncio.create_task(collect(stream))
            await asyncio.sleep(rng.random() * 0.2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif how == "break":
            count = rng.randint(1, 4)
            async for _ in stream:
                count -= 1
                if not count:
                    break
        elif how == "aclose":
            await asyncio.sleep(rng.random() * 0.2)
            await stream.aclose()
            assert [delta async for delta in stream] == []
        else:
            await collect(stream)

    async def main():
        engine = start(folders, lag=1)
        hows = [rng.choice(["task", "break", "aclose", "drop", "read"]) for _ in prompts]
        for how, prompt, param in zip(hows, prompts, params, strict=True):
            if how == "drop":
                engine.generate(prompt, param)
        await asyncio.gather(
            *(
                leave(engine, prompt, param, how)
                for how, prompt, param in zip(hows, prompts, params, strict=True)
                if how != "drop"
            )
        )
        gc.collect()
        await until(lambda: engine.num_unfinished == 0)
        report = await engine.close()
        assert (report.num_ended, report.num_aborted) == (0, 0) and is_clean(engine._engine)

    asyncio.run(main())


async def test_a_slow_reader_gets_one_delta_and_stalls_nobody(folders):
    async with start(folders) as engine:
        slow = engine.generate("abc", SamplingParams(max_tokens=60, ignore_eos=True))
        await collect(engine.generate("abc", SamplingParams(max_tokens=60, ignore_eos=True)))
        await until(lambda: engine.num_unfinished == 0)
        (delta,) = [delta async for delta in slow]
        assert len(delta.token_ids) == 60 and delta.finish_reason == "length"


async def test_the_queue_is_bounded(folders):
    engine = start(folders, max_batch_size=2, max_waiting=3)
    streams = [engine.generate("abc", ENDLESS) for _ in range(4)]
    with pytest.raises(
        QueueFull,
        match="4 requests are under way, and the engine has room for 5; try again later",
    ):
        engine.generate("abc", SamplingParams(n=2))
    streams.append(engine.generate("abc", ENDLESS))
    with pytest.raises(QueueFull):
        engine.generate("abc")
    with pytest.raises(InvalidParams, match="empty"):
        engine.generate("")
    with pytest.raises(InvalidParams, match="params must be a SamplingParams"):
        engine.generate("abc", {"max_tokens": 3})
    with pytest.raises(InvalidParams, match="max_waiting must be ≥ 0"):
        AsyncEngine(engine._engine, max_waiting=-1)
    streams.clear()
    await until(lambda: engine.num_unfinished == 0)
    await collect(engine.generate("abc", SamplingParams(max_tokens=3)))
    await engine.close()
    assert is_clean(engine._engine)


async def test_it_sleeps_when_there_is_nothing_to_do(folders):
    async with start(folders, lag=1) as engine:
        await collect(engine.generate("abc", SamplingParams(max_tokens=5)))
        before_s, steps = time.process_time(), []
        step = engine._engine.step
        engine._engine.step = lambda: steps.append(1) or step()
        await asyncio.sleep(0.5)
        assert len(steps) <= 2 and time.process_time() - before_s < 0.2


async def test_a_compile_holds_nobody_up_and_can_be_left(folders):
    async with start(folders) as engine:
        compiler, future = engine._engine._admission.compiler, GrammarFuture()
        submit, compiler.submit = compiler.submit, lambda guide, room: future
        compiling = engine.generate("abc", SamplingParams(guide=Guide(regex="a")))
        late = engine.generate("abc", SamplingParams(guide=Guide(regex="a"), timeout_s=0.3))
        await asyncio.sleep(0.05)
        compiler.submit = submit
        start_s = time.perf_counter()
        await collect(engine.generate("abc", SamplingParams(max_tokens=3)))
        assert time.perf_counter() - start_s < 1
        ((_, _, last),) = await collect(late)
        assert isinstance(last.error, RequestTimeout)
        await compiling.aclose()
        await until(lambda: engine.num_unfinished == 0)
        ((text, _, last),) = await collect(
            engine.generate("abc", SamplingParams(guide=Guide(regex="ab")))
        )
        assert (text, last.finish_reason) == ("ab", "stop")
        ((_, _, last),) = await collect(
            engine.generate("abc", SamplingParams(guide=Guide(regex="(")))
        )
        assert last.finish_reason == "error" and "regular expression" in str(last.error)


@pytest.mark.parametrize("where", ["iteration", "step", "add", "publish"])
async def test_a_failed_engine_ends_all_and_takes_no_more(folders, monkeypatch, where):
    engine = start(folders, max_batch_size=2)
    inner, cause = engine._engine, ValueError("the device is gone")

    def fail(*_, **__):
        raise cause

    streams = [collect(engine.generate("abc", ENDLESS)) for _ in range(5)]
    tasks = [asyncio.create_task(stream) for stream in streams]
    await until(lambda: inner.num_unfinished == 5)
    assert engine.health.is_healthy
    target, name = {
        "iteration": (inner._executor.step, "launch"),
        "step": (inner, "step"),
        "add": (inner, "add"),
        "publish": (engine._loop, "cancel"),
    }[where]
    monkeypatch.setattr(target, name, fail)
    if where == "add":
        tasks.append(asyncio.create_task(collect(engine.generate("abc", SamplingParams(n=2)))))
    if where == "publish":
        await engine.generate("abc").aclose()
    for samples in await asyncio.wait_for(asyncio.gather(*tasks), 10):
        for _, _, last in samples:
            assert last.finish_reason == "error" and isinstance(last.error, EngineError)
            assert "the device is gone" in str(last.error)
    assert not engine.health.is_healthy and "the device is gone" in str(engine.health.cause)
    with pytest.raises(EngineError, match=r"the engine takes no requests: .*the device is gone"):
        engine.generate("abc")
    monkeypatch.undo()
    report = await asyncio.wait_for(engine.close(), 10)
    assert report.num_aborted == 0 and engine.num_unfinished == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit(3), GeneratorExit], ids=str)
@pytest.mark.parametrize("place", ["processor", "matcher", "thread"])
async def test_an_exit_in_the_engines_thread_fails_it_loudly(folders, monkeypatch, error, place):
    def leave(*_):
        raise error

    engine = start(folders, max_batch_size=4)
    tasks = [asyncio.create_task(collect(engine.generate("abc", ENDLESS))) for _ in range(3)]
    await until(lambda: engine._engine.num_unfinished == 3)
    if place == "thread":
        monkeypatch.setattr(engine._commands, "take", leave)
    else:
        guide = Guide(matcher=leave) if place == "matcher" else None
        processors = [leave] if place == "processor" else ()
        params = SamplingParams(logits_processors=processors, guide=guide)
        tasks.append(asyncio.create_task(collect(engine.generate("abc", params))))
    await asyncio.wait_for(until(lambda: not engine.health.is_healthy), 10)
    monkeypatch.undo()
    for ((_, _, last),) in await asyncio.wait_for(asyncio.gather(*tasks), 10):
        assert last.finish_reason == "error" and isinstance(last.error, EngineError)
    assert type(error() if isinstance(error, type) else error).__name__ in str(engine.health.cause)
    with pytest.raises(EngineError, match="the engine takes no requests"):
        engine.generate("abc")
    await asyncio.wait_for(engine.close(), 10)
    assert engine.num_unfinished == 0


async def test_an_exit_in_a_matcher_that_runs_ends_its_request_alone(folders):
    """A matcher is called from worker threads, where its failures, of whatever kind, are told as
    its request's."""

    class Leaving:
        is_terminated = False

        def accept(self, token):
            raise SystemExit(3)

        def fill(self, row):
            row[:] = -1

        rollback = forced_tokens = None

    async with start(folders) as engine:
        neighbour = asyncio.create_task(
            collect(engine.generate("abc", SamplingParams(max_tokens=30)))
        )
        ((_, _, last),) = await collect(
            engine.generate("abc", SamplingParams(guide=Guide(matcher=Leaving)))
        )
        assert "SystemExit" in str(last.error) and engine.health.is_healthy
        assert (await neighbour)[0][2].error is None


async def test_a_failure_that_telling_it_meets_again_is_told(folders, monkeypatch):
    engine = start(folders)
    tasks = [asyncio.create_task(collect(engine.generate("abc", ENDLESS))) for _ in range(2)]
    await until(lambda: engine._engine.num_unfinished == 2)
    monkeypatch.setattr("specguide.scheduler.OutputText.take", lambda self: 1 / 0)
    for ((_, _, last),) in await asyncio.wait_for(asyncio.gather(*tasks), 10):
        assert isinstance(last.error, EngineError) and "division" in str(last.error)
    await asyncio.wait_for(engine.close(), 10)


async def test_samples_that_there_is_never_room_for(folders):
    async with start(folders, max_batch_size=2, max_waiting=3) as engine:
        with pytest.raises(InvalidParams, match=r"n = 6 asks for more samples than the 5 requests"):
            engine.generate("abc", SamplingParams(n=6))
        assert len(await collect(engine.generate("abc", SamplingParams(n=5, max_tokens=2)))) == 5


async def test_a_close_without_a_limit_waits_for_all_requests(folders):
    engine = start(folders)
    short = asyncio.create_task(collect(engine.generate("abc", SamplingParams(max_tokens=3))))
    await asyncio.sleep(0)
    report = await asyncio.wait_for(engine.close(math.inf), 20)
    assert (report.num_ended, report.num_aborted) == (1, 0)
    assert (await short)[0][2].finish_reason == "length"


async def test_closing_does_not_wait_for_threads_of_others(folders):
    """The event loop's own may all be busy when a server is stopped."""
    engine, done = start(folders), threading.Event()
    busy = [asyncio.create_task(asyncio.to_thread(done.wait, 20)) for _ in range(64)]
    await asyncio.sleep(0.05)
    await asyncio.wait_for(engine.close(0), 10)
    done.set()
    await asyncio.gather(*busy)


async def test_close_waits_then_aborts_and_says_so(folders):
    engine = start(folders, max_batch_size=2)
    step = engine._engine.step
    engine._engine.step = lambda: time.sleep(0.03) or step()  # 480 tokens take 3.6 s at least
    short = asyncio.create_task(collect(engine.generate("abc", SamplingParams(max_tokens=3))))
    long = [asyncio.create_task(collect(engine.generate("abc", ENDLESS))) for _ in range(3)]
    await asyncio.sleep(0)
    report = await engine.close(timeout_s=2.0)
    assert (report.num_ended, report.num_aborted) == (1, 3) and 1.9 < report.waited_s < 20
    assert "for 4 requests: 1 ended, 3 were aborted" in str(report)
    assert (await short)[0][2].finish_reason == "length"
    assert [samples[0][2].finish_reason for samples in await asyncio.gather(*long)] == ["abort"] * 3
    with pytest.raises(
        EngineError, match="the engine takes no requests: the engine is being closed"
    ):
        engine.generate("abc")
    assert await engine.close() == report and is_clean(engine._engine)


def test_a_loop_that_is_gone_takes_its_requests_along(folders):
    async def abandon(engine):
        stream = engine.generate("abc", ENDLESS)
        kept.append(stream)
        await stream.__anext__()

    async def make_engine():
        return start(folders)

    async def other(engine):
        await collect(engine.generate("abc", SamplingParams(max_tokens=3)))
        await until(lambda: engine.num_unfinished == 0)
        await engine.close()

    kept: list = []
    engine = asyncio.run(make_engine())
    asyncio.run(abandon(engine))
    asyncio.run(other(engine))
    assert is_clean(engine._engine)


def test_two_loops_at_once(folders):
    results = {}

    async def main(engine, name):
        results[name] = await asyncio.gather(
            *(
                collect(engine.generate("abc", SamplingParams(max_tokens=20, ignore_eos=True)))
                for _ in range(6)
            )
        )

    engine = start(folders)
    threads = [
        threading.Thread(target=lambda name=name: asyncio.run(main(engine, name))) for name in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    asyncio.run(engine.close())
    texts = {samples[0][0] for name in "ab" for samples in results[name]}
    assert len(results["a"]) == len(results["b"]) == 6 and len(texts) == 1
