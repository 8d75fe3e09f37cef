"""Engines behind the wire: outputs equal those in process, whatever is asked for; fronts that
leave, lie or ask for too much harm nobody else."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import zmq
from async_engines import ENDLESS, collect, until
from core_thread import core_thread
from tiny_engine import K, generate, make

from specguide import Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig
from specguide.engine.serving import core_link, wire
from specguide.engine.serving.control import FrontLeft
from specguide.errors import (
    EngineError,
    InvalidGuide,
    InvalidParams,
    QueueFull,
    RequestError,
    RequestTimeout,
)
from specguide.request import EXTERNAL_ID

CASES = [
    SamplingParams(max_tokens=40),
    SamplingParams(max_tokens=40, temperature=0.8, seed=5, n=3),
    SamplingParams(max_tokens=30, temperature=1.0, seed=3, ignore_eos=True, stop=["a", "e", "io"]),
    SamplingParams(max_tokens=30, temperature=1.0, seed=9, n=2, stop=["a"], min_tokens=9),
    SamplingParams(max_tokens=12, logprobs=2, prompt_logprobs=1),
    SamplingParams(max_tokens=20, return_drafts=True),
    SamplingParams(max_tokens=60, guide=Guide(regex="(ä|ö|ü|😀){5,20}")),
    SamplingParams(max_tokens=60, guide=Guide(json_schema={"enum": ["a", "bc", 1.5]})),
    SamplingParams(max_tokens=20, temperature=1.2, seed=1, stop_token_ids=list(range(80))),
    SamplingParams(max_tokens=60, guide=Guide(regex="([a-f]{3})+"), stop=["a", "cd"], seed=2),
    SamplingParams(max_tokens=60, guide=Guide(regex="([a-f]{3})+"), stop_token_ids=range(128)),
]
PROMPTS = ["some text", "ü", [255, 195], "x" * 70]


@pytest.fixture
def config(folders):
    target, head = folders
    spec = SpecConfig(model=head, num_draft_tokens=K)
    return EngineConfig(model=target, spec=spec, max_batch_size=4)


def told(out):
    """The parts of a RequestOutput that must be the same."""
    iterations = out.iterations and [replace(one, times=None) for one in out.iterations]
    text = out.text, out.token_ids, out.finish_reason, out.stop_reason
    return *text, rounded(out.logprobs), iterations


def rounded(logprobs):
    """Log-probabilities to their rounding, which depends on which requests share a batch."""
    return logprobs and tuple(
        one
        and {
            token: it._replace(logprob=pytest.approx(it.logprob, abs=1e-5))
            for token, it in one.items()
        }
        for one in logprobs
    )


async def read(stream, num_samples):
    """What `told` gives of each sample, and the prompt's log-probabilities."""
    taken = [[] for _ in range(num_samples)]
    async for delta in stream:
        taken[delta.index].append(delta)
    return [_whole(deltas) for deltas in taken], taken[0][0].prompt_logprobs


def _whole(deltas):
    last = deltas[-1]
    joined = [
        None if getattr(last, name) is None else sum((getattr(d, name) for d in deltas), ())
        for name in ("logprobs", "iterations")
    ]
    iterations = joined[1] and [replace(one, times=None) for one in joined[1]]
    text = "".join(delta.text for delta in deltas)
    tokens = sum((delta.token_ids for delta in deltas), ())
    return text, tokens, last.finish_reason, last.stop_reason, joined[0], iterations


def test_outputs_equal_those_in_process(folders, config, tmp_path):
    asked = [(prompt, params) for prompt in PROMPTS for params in CASES]
    llm = make(folders, max_batch_size=4)
    blocking = generate(llm, [prompt for prompt, _ in asked], [params for _, params in asked])

    async def main(core):
        fronts = [core.front(f"front-{number}") for number in range(3)]
        return await asyncio.gather(
            *(
                read(fronts[number % 3].generate(prompt, params), params.n)
                for number, (prompt, params) in enumerate(asked)
            )
        )

    with core_thread(config, tmp_path) as core:
        found = asyncio.run(main(core))
    for (samples, prompt_logprobs), out in zip(found, blocking, strict=True):
        assert samples == [told(one) for one in out.samples]
        assert prompt_logprobs == rounded(out.prompt_logprobs)


async def test_what_is_wrong_with_a_request_is_told_with_its_class(config, tmp_path):
    with core_thread(config, tmp_path, max_waiting=4) as core:
        front = core.front()
        for prompt, error in (("", InvalidParams), ([5000], InvalidParams), ([], InvalidParams)):
            with pytest.raises(error, match="prompt"):
                front.generate(prompt)
        with pytest.raises(InvalidParams, match="priority"):
            front.generate("a", priority=10**30)
        with pytest.raises(InvalidParams, match="samples"):
            front.generate("a", SamplingParams(n=10))
        for params, error in (
            (SamplingParams(guide=Guide(regex="(a")), InvalidGuide),
            (SamplingParams(max_tokens=400, ignore_eos=True, timeout_s=1e-4), RequestTimeout),
            (SamplingParams(allowed_token_ids=[9999]), InvalidParams),
        ):
            ((_, _, last),) = await collect(front.generate("abc", params))
            assert last.finish_reason == "error" and type(last.error) is error, last


async def test_the_queue_is_bounded_over_all_fronts(config, tmp_path):
    with core_thread(config, tmp_path, max_waiting=4) as core:
        one, other = core.front("one"), core.front("other")
        streams = [one.generate("abc", ENDLESS) for _ in range(6)]
        await until(lambda: core.fronts.loop.num_live == 6)
        found = await collect(other.generate("abc", SamplingParams(n=3)))
        assert len(found) == 3 and all(type(last.error) is QueueFull for _, _, last in found)
        assert [last.finish_reason for _, _, last in await collect(other.generate("abc"))] != []
        streams.clear()
        await until(lambda: core.engine.num_unfinished == 0 and one.num_unfinished == 0)


async def test_who_would_wait_too_long_is_told_when_to_come_back(config, tmp_path, monkeypatch):
    with core_thread(config, tmp_path, max_wait_s=2.0) as core:
        told = []
        monkeypatch.setattr(core.engine, "wait_s", lambda *asked: told.append(asked) or 7.5)
        ((_, _, last),) = await collect(core.front().generate("abc", priority=3, client="a"))
        assert type(last.error) is QueueFull and last.error.retry_after_s == 5.5
        assert told == [("a", 3)] and core.engine.num_unfinished == 0


async def test_the_name_of_a_request_travels_to_the_log_of_the_core(config, tmp_path, caplog):
    logs = caplog.at_level(logging.INFO, logger="specguide.requests")
    with logs, core_thread(config, tmp_path) as core:
        EXTERNAL_ID.set("job-7")
        await collect(core.front().generate("abc", SamplingParams(max_tokens=2)))
        await until(lambda: "specguide.requests" in [one.name for one in caplog.records])
        logged = [one for one in caplog.records if one.name == "specguide.requests"]
        assert [json.loads(one.message)["external_id"] for one in logged] == ["job-7"]


async def test_stats_and_health_travel(config, tmp_path):
    with core_thread(config, tmp_path) as core:
        front = core.front()
        assert front.health.is_healthy
        await collect(front.generate("abc", SamplingParams(max_tokens=9, ignore_eos=True)))
        await front.refresh_stats()
        assert front.stats().output_tokens == 9 and front.stats().finished == {"length": 1}
        with pytest.raises(InvalidParams, match="timeline"):
            await front.spans()
        grammar = front.grammar_of(SamplingParams(guide=Guide(regex="ab")))
        assert grammar.matcher().accept(ord("a")) is not None


async def test_a_front_that_leaves_takes_its_own_requests_along(config, tmp_path):
    with core_thread(config, tmp_path) as core:
        one, other = core.front("one"), core.front("other")
        gone = [one.generate("abc", ENDLESS) for _ in range(3)]
        stays = asyncio.create_task(collect(other.generate("abc", ENDLESS)))
        await until(lambda: core.engine.stats().num_running == 4)
        one._link.close()
        core.control.send(FrontLeft("one"))
        await until(lambda: core.engine.num_unfinished <= 1)
        ((_, tokens, last),) = await stays
        assert (len(tokens), last.finish_reason) == (480, "length") and gone


async def test_what_a_front_has_asked_last_ends_with_it_too(config, tmp_path, monkeypatch):
    """A front's last message and the word that it is gone may be read at once."""
    with core_thread(config, tmp_path) as core:
        front, goes_on, step = core.front("one"), threading.Event(), core.engine.step
        monkeypatch.setattr(core.engine, "step", lambda: (goes_on.wait(10), step()))
        gone = [front.generate("abc", ENDLESS)]
        await until(lambda: core.engine.num_unfinished == 1)
        gone.append(front.generate("abc", ENDLESS))
        await asyncio.sleep(0.1)
        core.control.send(FrontLeft("one"))
        goes_on.set()
        await until(lambda: core.engine.num_unfinished == 0)
        assert core.engine.stats().finished == {"abort": 2} and gone


async def test_malformed_messages_harm_nobody(config, tmp_path, caplog):
    with core_thread(config, tmp_path) as core:
        front = core.front()
        liar = zmq.Context.instance().socket(zmq.DEALER)
        liar.setsockopt(zmq.LINGER, 0)
        liar.connect(core.address)
        ids, text = [1, 2], '{"max_tokens": 4}'
        for frame in (
            b"",
            b"\xff\x00",
            wire.ENCODER.encode(["AddRequest", 1]),
            wire.ENCODER.encode(["AddRequest", 1, ["x"], "{}", 0, 0.0]),
            wire.ENCODER.encode(["Nothing"]),
            wire.ENCODER.encode(wire.Cancel(77)),
            wire.ENCODER.encode(wire.AddRequest(1, ids, "no JSON", 0, 0.0)),
            wire.ENCODER.encode(wire.AddRequest(2, [9999], text, 0, 0.0)),
            wire.ENCODER.encode(wire.AddRequest(3, [-1], text, 0, 0.0)),
            wire.ENCODER.encode(wire.AddRequest(4, [], text, 0, 0.0)),
            wire.ENCODER.encode(wire.AddRequest(5, ids, text, 0, 0.0)),
            wire.ENCODER.encode(wire.AddRequest(5, ids, text, 0, 0.0)),
        ):
            liar.send_multipart([b"1", frame])
        liar.send(b"one frame")
        liar.send_multipart([b"two", b"frames"])
        liar.send_multipart([b"9" * 99, b"frames"])
        ((_, tokens, _),) = await collect(front.generate("abc", SamplingParams(max_tokens=5)))
        assert len(tokens) <= 5 and front.health.is_healthy
        await until(lambda: core.engine.num_unfinished == 0)
        front._link._take(wire.Deltas([wire.Delta(99, 0, [1])]))  # of a request there is not
        liar.close()
    assert "dropped" in caplog.text


async def test_a_request_whose_text_cannot_begin_is_not_sent(config, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise UnicodeError("such a prompt")

    with core_thread(config, tmp_path) as core:
        front = core.front()
        with monkeypatch.context() as patch:
            patch.setattr(front.tokenizer, "detokenizer", fail)
            with pytest.raises(UnicodeError, match="such a prompt"):
                front.generate("abc", ENDLESS)
        ((_, tokens, _),) = await collect(front.generate("abc", SamplingParams(max_tokens=5)))
        assert len(tokens) <= 5 and core.engine.num_unfinished == 0


async def test_what_the_core_cannot_read_ends_with_an_error(config, tmp_path, monkeypatch):
    unreadable = wire.ENCODER.encode(["AddRequest", 1, "no ids"])
    with core_thread(config, tmp_path) as core:
        front = core.front()
        one = SamplingParams(max_tokens=5, n=2)
        goes_on = asyncio.create_task(collect(front.generate("abc", ENDLESS)))
        await until(lambda: core.engine.stats().num_running == 1)
        with monkeypatch.context() as patch:
            encoder = SimpleNamespace(ENCODER=SimpleNamespace(encode=lambda _: unreadable))
            patch.setattr(core_link, "wire", SimpleNamespace(**vars(wire) | vars(encoder)))
            refused, asked = front.generate("abc", one), asyncio.create_task(front.spans())
            await asyncio.sleep(0.05)
        for _, tokens, last in await asyncio.wait_for(collect(refused), 10):
            assert not tokens and type(last.error) is RequestError
            assert "cannot read" in str(last.error) and "`array`" in str(last.error)
        with pytest.raises(RequestError, match="cannot read"):
            await asyncio.wait_for(asked, 10)
        ((_, tokens, last),) = await goes_on
        assert (len(tokens), last.finish_reason) == (480, "length")


async def test_a_failed_engine_is_told_to_all_fronts(config, tmp_path, monkeypatch):
    with core_thread(config, tmp_path) as core:
        one, other = core.front("one"), core.front("other")
        await asyncio.gather(one.refresh_stats(), other.refresh_stats())
        waiting = asyncio.create_task(collect(one.generate("abc", ENDLESS)))
        await until(lambda: core.engine.stats().num_running == 1)

        def fail(*_):
            raise RuntimeError("no more")

        monkeypatch.setattr(core.engine._cycle, "launch", fail)
        ((_, _, last),) = await asyncio.wait_for(waiting, 10)
        assert type(last.error) is EngineError and "no more" in str(last.error)
        await until(lambda: not one.health.is_healthy and not other.health.is_healthy)
        assert "no more" in str(other.health.cause)
        with pytest.raises(EngineError, match="the engine takes no requests"):
            other.generate("abc")


async def test_a_core_that_is_gone_and_one_that_follows(config, tmp_path):
    with core_thread(config, tmp_path) as core:
        front = core.front()
        waiting = asyncio.create_task(collect(front.generate("abc", replace(ENDLESS, n=2))))
        await until(lambda: core.engine.stats().num_running == 2)
        front.disconnect("it was ended")
        for _, _, last in await asyncio.wait_for(waiting, 10):
            assert last.finish_reason == "error" and "it was ended" in str(last.error)
        with pytest.raises(EngineError, match="it was ended"):
            front.generate("abc")
        await front.refresh_stats()
        assert front.stats() is None
        core.control.send(FrontLeft("front"))
        await until(lambda: core.engine.num_unfinished == 0)
        front.connect(core.address)
        assert front.health.is_healthy
        while front.stats() is None:  # a busy core may take too long to tell
            await front.refresh_stats()
        assert front.stats().output_tokens > 0
        ((_, tokens, _),) = await collect(front.generate("abc", SamplingParams(max_tokens=5)))
        assert 1 <= len(tokens) <= 5


async def test_close_waits_then_aborts_and_says_so(config, tmp_path):
    with core_thread(config, tmp_path) as core:
        front = core.front()
        quick = asyncio.create_task(
            collect(front.generate("abc", SamplingParams(max_tokens=5, ignore_eos=True)))
        )
        slow = asyncio.create_task(
            collect(front.generate("abc", replace(ENDLESS, timeout_s=60, n=2)))
        )
        await asyncio.sleep(0)
        report = await front.close(0.2)
        ((_, _, last),) = await quick
        assert last.finish_reason == "length"
        assert {last.finish_reason for _, _, last in await slow} <= {"abort", "length"}
        assert report.num_aborted <= 2 and report is await front.close()
        with pytest.raises(EngineError, match="being closed"):
            front.generate("abc")


async def test_a_front_that_is_closed_lets_the_threads_of_its_grammars_go(config, tmp_path):
    with core_thread(config, tmp_path) as core:
        front, before = core.front(), threads()
        grammar = await asyncio.to_thread(front.grammar_of, SamplingParams(guide=Guide(regex="a")))
        assert grammar is not None and threads() > before
        await front.close()
        assert threads() == before


def threads() -> int:
    """Number of threads that compile grammars."""
    return sum("grammar" in thread.name for thread in threading.enumerate())
