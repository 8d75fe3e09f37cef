"""Prefill and decode apart: outputs and acceptance equal those of one engine; a peer that is gone,
slow, different or lying costs time alone."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest
import zmq
from async_engines import collect, until
from lora_adapters import adapter
from tiny_engine import K

from specguide import Guide, SamplingParams, SpecConfig
from specguide.cache import KeyShape, KVCache
from specguide.config import CacheConfig, EngineConfig, TransferConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import AsyncEngine, Engine
from specguide.engine.kv_transfer import link, prefill_side, wire
from specguide.engine.kv_transfer.link import Link
from specguide.errors import InvalidParams, PromptTooLong

PROMPT = "a prompt of some pages " * 5
CASES = [
    SamplingParams(max_tokens=20, ignore_eos=True),
    SamplingParams(max_tokens=20, temperature=0.9, seed=4, n=2, ignore_eos=True),
    SamplingParams(max_tokens=40, guide=Guide(regex="([a-f]{3})+")),
    SamplingParams(max_tokens=8, logprobs=2, prompt_logprobs=1),
]


def address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def config_of(folders, **spec) -> EngineConfig:
    target, head = folders
    return EngineConfig(
        model=target,
        spec=SpecConfig(model=head, **(spec or {"num_draft_tokens": K})),
        max_batch_size=4,
    )


def with_role(config, role, at, timeout_s=10.0) -> EngineConfig:
    return replace(config, transfer=TransferConfig(role, at, timeout_s))


@asynccontextmanager
async def running(config):
    engine = Engine(config)
    served = AsyncEngine(engine)
    try:
        yield served, engine
    finally:
        await served.close(2.0)
        engine.check_integrity()
        assert engine._pages.num_free == engine._pages.num_pages


@asynccontextmanager
async def apart(config, at, prefill_config=None):
    """Two engines: the one that is asked, and the one that computes prompts."""
    prefill_config = with_role(config, "prefill", at) if prefill_config is None else prefill_config
    async with (
        running(prefill_config) as (_, prefill),
        connected(with_role(config, "decode", at)) as (served, decode),
    ):
        yield served, decode, prefill


@asynccontextmanager
async def connected(config):
    async with running(config) as (served, engine):
        await until(lambda: engine._transfer._link.is_connected)
        yield served, engine


async def outputs(served, cases=CASES, prompt=PROMPT):
    told = []
    for params in cases:
        for text, tokens, last in await collect(served.generate(prompt, params)):
            assert last.error is None
            told.append((text, tokens, last.finish_reason, last.metrics.accepted_histogram))
    return told


async def alone(config, **given):
    async with running(config) as (served, _):
        return await outputs(served, **given)


@pytest.mark.parametrize("spec", [{}, {"tree": DynamicTree(2, 2, 4)}], ids=["chain", "tree"])
async def test_outputs_and_acceptance_equal_those_of_one_engine(folders, spec):
    config, at = config_of(folders, **spec), address()
    expected = await alone(config)
    async with apart(config, at) as (served, decode, prefill):
        assert await outputs(served) == expected
        got, sent = decode.stats().transfers, prefill.stats().transfers
    assert got["requests"] == 1 and not got["fallbacks"]  # later ones find the first's pages
    assert got["pages"] == sent["pages"] > 3 and got["bytes"] == sent["bytes"] > 0


async def test_prompts_of_adapters_are_computed_with_them(folders, tmp_path):
    modules = tuple(f"{it}={adapter(tmp_path / it, folders[0], ord(it))}" for it in "ab")
    config, at = replace(config_of(folders), lora_modules=modules), address()
    cases = [replace(CASES[0], lora=name) for name in ("b", None, "a")]
    expected = await alone(config, cases=cases)
    assert len(set(map(str, expected))) == 3
    async with apart(config, at) as (served, decode, _):
        found = await asyncio.gather(*(outputs(served, [case]) for case in cases))
        assert [told for [told] in found] == expected
        counts = decode.stats().transfers
    assert counts["requests"] == 3 and counts["pages"] > 9 and not counts["fallbacks"]
    other = with_role(replace(config, lora_modules=modules[::-1]), "prefill", at)
    async with apart(config, at, other) as (served, decode, _):
        assert await outputs(served, cases) == expected
        assert decode.stats().transfers["pages"] == 0


@pytest.mark.parametrize("case", range(3))
async def test_each_case_from_a_cold_cache(folders, case):
    config, at = config_of(folders), address()
    expected = await alone(config, cases=[CASES[case]])
    async with apart(config, at) as (served, decode, _):
        assert await outputs(served, [CASES[case]]) == expected
        counts = decode.stats().transfers
    assert counts["pages"] > 3 and not counts["fallbacks"]


async def test_only_what_is_missing_is_asked_for(folders):
    config, at = config_of(folders), address()
    async with apart(config, at) as (served, decode, _):
        await outputs(served, CASES[:1])
        before = decode.stats().transfers["pages"]
        longer = PROMPT + "and more than a page of other text"
        told = await outputs(served, CASES[:1], longer)
        more = decode.stats().transfers["pages"] - before
    assert 0 < more < before
    assert told == await alone(config, cases=CASES[:1], prompt=longer)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda config: replace(config, spec=None), "drafter"),
        (lambda config: replace(config, cache=CacheConfig(page_size=8)), "page_size"),
        (lambda config: replace(config, dtype="bfloat16"), "dtype"),
        (lambda config: replace(config, model=None, spec=SpecConfig()), "model"),
    ],
    ids=["drafter", "page size", "dtype", "model"],
)
async def test_engines_that_differ_are_refused_by_name(folders, caplog, change, named):
    config, at = config_of(folders), address()
    expected = await alone(config, cases=CASES[:1])
    other = change(with_role(config, "prefill", at))
    async with apart(config, at, other) as (served, decode, _):
        assert await outputs(served, CASES[:1]) == expected
        counts = decode.stats().transfers
    assert counts["fallbacks"] == 1 and counts["pages"] == 0
    assert f"the KV pages of the two engines differ: {named} is" in caplog.text


async def test_a_peer_that_is_not_there_costs_nothing(folders):
    config = config_of(folders)
    async with running(with_role(config, "decode", address())) as (served, decode):
        assert await outputs(served) == await alone(config)
        assert decode.stats().transfers["fallbacks"] >= 1


class Peer:
    """Takes the place of a prefill engine: answers each question with what `answer` makes of it."""

    def __init__(self, at, answer) -> None:
        self._socket = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(at)
        self._answer, self.is_over = answer, False
        self.num_asked = self.num_forgotten = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over = True
        self._thread.join()

    def _run(self):
        while not self.is_over:
            if self._socket.poll(20):
                name, frame = self._socket.recv_multipart()
                said = wire.FROM_DECODE.decode(frame)
                if isinstance(said, wire.Forget):
                    self.num_forgotten += 1
                    continue
                self.num_asked += 1
                for frames in self._answer(said):
                    if frames is None:  # it dies
                        self.is_over = True
                    else:
                        self._socket.send_multipart([name, *frames])
        self._socket.close()


def pages(fetch, first=None, num=1, frames=(b"", b"")):
    first = fetch.first if first is None else first
    return [wire.ENCODER.encode(wire.Pages(fetch.number, first, num, True)), *frames]


LIES = {
    "no frames": lambda fetch: [pages(fetch, frames=())],
    "short frames": lambda fetch: [pages(fetch, frames=(b"x", b"y"))],
    "other pages": lambda fetch: [pages(fetch, first=7)],
    "too many": lambda fetch: [pages(fetch, num=10**9)],
    "negative": lambda fetch: [pages(fetch, num=-1)],
    "of nobody, then refused": lambda fetch: [
        [b"\xc1"],
        [b"\x92\xa1\xff\x01"],  # of a type whose name is no UTF-8
        [msgspec.msgpack.encode(["Pages", "x"])],
        pages(replace_number(fetch)),
        [wire.ENCODER.encode(wire.Refused(fetch.number, "no"))],
    ],
    "dies": lambda fetch: [None],
}


def replace_number(fetch):
    return msgspec.structs.replace(fetch, number=fetch.number + 99)


@pytest.mark.parametrize("lie", LIES)
async def test_a_peer_that_lies_or_dies_ends_its_transfer_only(folders, lie):
    config, at = config_of(folders), address()
    expected = await alone(config, cases=CASES[:1])
    with Peer(at, LIES[lie]):
        async with connected(with_role(config, "decode", at, 5.0)) as (served, decode):
            assert await outputs(served, CASES[:1]) == expected
            counts = decode.stats().transfers
    assert counts["fallbacks"] == 1 and counts["pages"] == 0 and counts["seconds"] < 4


async def test_after_a_time_out_a_peer_is_left_alone_for_a_while(folders):
    config, at = config_of(folders), address()
    with Peer(at, lambda fetch: []) as peer:
        async with connected(with_role(config, "decode", at, 0.5)) as (served, decode):
            await outputs(served, CASES[:1])
            assert 0.4 < decode.stats().transfers["seconds"] < 3
            await outputs(served, CASES[:1], "other " * 30)
    assert peer.num_asked == peer.num_forgotten == 1


async def test_a_request_that_leaves_while_it_waits_ends(folders):
    config, at = config_of(folders), address()
    with Peer(at, lambda fetch: []) as peer:
        async with connected(with_role(config, "decode", at)) as (served, _):
            [(_, _, last)] = await collect(
                served.generate(PROMPT, replace(CASES[0], timeout_s=0.2))
            )
            assert last.finish_reason == "error" and "timeout_s" in str(last.error)
            await until(lambda: peer.num_forgotten == 1)


def test_a_prompt_that_nobody_waits_for_any_more_is_not_computed(folders):
    at = address()
    engine = Engine(with_role(config_of(folders), "prefill", at))
    form, ids = engine._transfer._format, [97] * 100
    with zmq.Context.instance().socket(zmq.DEALER) as asker:
        asker.setsockopt(zmq.LINGER, 0)
        asker.connect(at)
        asked = [wire.Fetch(number, form, ids, 0, 2) for number in (1, 2)]
        for said in (*asked, wire.Forget(1), wire.Forget(7)):
            asker.send(wire.ENCODER.encode(said))
        asyncio.run(until(lambda: len(engine._transfer._news) == 4))
        ended = engine.step()
        while len(ended) < 2:
            ended += engine.step()
        assert [request.finish_reason for request in ended] == ["abort", "length"]
        assert wire.FROM_PREFILL.decode(asker.recv_multipart()[0]).number == 2
        assert not asker.poll(200)
    assert engine.stats().transfers["fallbacks"] == 0
    engine.close()


async def test_a_prompt_that_is_too_long_ends_alone(folders):
    config, at = replace(config_of(folders), max_model_len=100), address()
    async with apart(config, at) as (served, decode, _):
        for length in (100, 100_000):  # the last has a message too long for the prefill engine
            [(_, _, last)] = await collect(served.generate([97] * length, CASES[0]))
            assert isinstance(last.error, PromptTooLong)
        assert not decode.stats().transfers["requests"]
        assert await outputs(served, CASES[:1], "abc") == await alone(
            config, cases=CASES[:1], prompt="abc"
        )


async def test_a_prompt_too_long_for_the_prefill_engine_is_computed_here(
    folders, monkeypatch, caplog
):
    monkeypatch.setattr(prefill_side, "_SMALL_FRAME", 0)
    config, at = config_of(folders), address()
    prefill_config = with_role(replace(config, max_model_len=64), "prefill", at)
    async with apart(config, at, prefill_config) as (served, decode, _):
        for prompt in (3 * PROMPT, "another beginning " * 3):
            expected = await alone(config, cases=CASES[:1], prompt=prompt)
            assert await outputs(served, CASES[:1], prompt) == expected
        counts = decode.stats().transfers
    assert (counts["requests"], counts["fallbacks"]) == (2, 1) and counts["pages"]
    assert "the context holds 64" in caplog.text and "was lost" not in caplog.text


async def test_a_prefill_engine_takes_hostile_messages_and_no_requests(folders):
    config, at = config_of(folders), address()
    async with running(with_role(config, "prefill", at)) as (served, prefill):
        with zmq.Context.instance().socket(zmq.DEALER) as hostile:
            hostile.setsockopt(zmq.LINGER, 0)
            hostile.connect(at)
            for frames in ([b"\xc1"], [b"", b"", b""], [b"\x00" * (1 << 20)]):
                hostile.send_multipart(frames)
            form = prefill._transfer._format
            for asked in (
                *(([], 0, 1), ([-1], 0, 1), ([1] * 9, 3, 1), ([1], 0, 9)),
                *(([1] * 40, 0, 1, 1), ([1] * 40, 0, 1, -1)),  # of adapters that are not there
            ):
                hostile.send(wire.ENCODER.encode(wire.Fetch(1, form, *asked)))
                assert await asyncio.to_thread(hostile.poll, 3000)
                assert isinstance(wire.FROM_PREFILL.decode(hostile.recv()), wire.Refused)
        [(_, _, last)] = await collect(served.generate(PROMPT, CASES[0]))
        assert isinstance(last.error, InvalidParams) and "role 'prefill'" in str(last.error)
        async with connected(with_role(config, "decode", at)) as (decoding, decode):
            await outputs(decoding, CASES[:1])
            assert decode.stats().transfers["pages"] > 3


def test_an_engine_is_closed_once_however_often_it_is_asked(folders):
    engine = Engine(with_role(config_of(folders), "decode", address()))
    engine.close()
    engine.close()


def test_a_link_is_closed_where_its_thread_sees_it_at_once(monkeypatch):
    """The thread ends before what closes it can wake it."""
    one = Link(address(), print, listens=True, max_frame_bytes=64)

    def write(*args, write=os.eventfd_write):
        one._thread.join()
        write(*args)

    monkeypatch.setattr(link.os, "eventfd_write", write)
    one.close()


@pytest.mark.parametrize("has_values", [True, False])
def test_pages_are_copied_bit_for_bit(has_values):
    import torch

    keys = KeyShape(2, 2, 8, has_values)
    caches = [KVCache.allocate(keys, 6, 4, torch.float8_e4m3fn, "cpu") for _ in range(2)]
    caches[0].memories[0].view(torch.uint8).random_(0, 255)
    caches[1].write_pages([5, 0], caches[0].read_pages([1, 3]))
    ours, theirs = (cache.memories[0].view(torch.uint8) for cache in caches)
    assert torch.equal(theirs[:, :, [5, 0]], ours[:, :, [1, 3]]) and not theirs[:, :, 1:5].any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "x"},
        {"kv_transfer_address": "x"},
        {"kv_transfer_address": "tcp://127.0.0.1:99999"},
        {"kv_transfer_timeout_s": 0},
    ],
)
def test_settings_are_refused_by_name(wrong):
    with pytest.raises(InvalidParams, match=next(iter(wrong))):
        TransferConfig(**wrong)


def test_an_address_in_use_is_told(folders):
    at = address()
    with Peer(at, lambda fetch: []), pytest.raises(InvalidParams, match="cannot be used"):
        Engine(with_role(config_of(folders), "prefill", at))
