"""Ranks of another host give the tokens of one process, and whoever ends is named."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from joined_hosts import KEY, free_address, joining
from requests_of_every_kind import failure

from specguide import LLM, SamplingParams
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors import host_links, ranks
from specguide.engine.executors.host_links import HostCame, host_and_port, ranks_key, reach
from specguide.errors import EngineError, InvalidParams
from specguide.host.release import versions

PROMPTS = ["abc", "hello"]
PARAMS = [SamplingParams(max_tokens=6), SamplingParams(max_tokens=6, temperature=0.9, seed=3)]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address where ranks may meet; all processes know a key."""
    monkeypatch.setenv(KEY, "a key of the tests")
    return free_address()


def llm_of(target: Path, **ranks: object) -> LLM:
    config = EngineConfig(target, guide=None, max_model_len=64, dtype="float32", **ranks)
    return LLM.around(Engine(config))


def tokens(llm: LLM) -> list[tuple[int, ...]]:
    return [tuple(out.token_ids) for out in llm.generate(PROMPTS, PARAMS)]


def children_of(process_id: int) -> list[int]:
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    return [int(child) for child in children.split()]


def test_one_host_after_another_gives_the_tokens_of_one(target: Path, address: str) -> None:
    """A host that joined serves the next engine, too; there a rank of its is killed."""
    alone = llm_of(target)
    expected = tokens(alone)
    alone.close()
    with joining(address) as host:
        stages = llm_of(target, pipeline_parallel_size=2, rank_address=address)
        assert tokens(stages) == expected
        stages.close()
        ranks = llm_of(target, tensor_parallel_size=2, rank_address=address)
        assert tokens(ranks) == expected
        (rank,) = children_of(host.pid)
        os.kill(rank, signal.SIGKILL)
        assert "rank 1 (127.0.0.1) was ended by SIGKILL" in failure(ranks)
        ranks.close()


def test_a_host_that_is_gone_is_named(target: Path, address: str) -> None:
    with joining(address) as host:
        llm = llm_of(target, tensor_parallel_size=2, rank_address=address, rank_timeout_s=5.0)
        (rank,) = children_of(host.pid)
        host.kill()
        while Path(f"/proc/{rank}").exists():
            time.sleep(0.1)
        assert "rank 1 (127.0.0.1) was lost with its host" in failure(llm)
        llm.close()


def test_a_host_with_other_files_is_named(
    target: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "checkpoints_of", lambda plan: "others")
    told = rf"rank 1 \(127.0.0.1\) has other files in {target} than rank 0"
    with joining(address), pytest.raises(EngineError, match=told):
        llm_of(target, tensor_parallel_size=2, rank_address=address)


def test_a_host_that_leaves_before_its_rank_has_come_is_named(target: Path, address: str) -> None:
    with joining(address) as host:
        leaving = threading.Thread(target=leave_as_rank_2, args=(address, host))
        leaving.start()
        with pytest.raises(EngineError, match="rank 2 did not start: was lost with its host"):
            llm_of(target, pipeline_parallel_size=3, rank_address=address)
        leaving.join()


def leave_as_rank_2(address: str, host: subprocess.Popen[str]) -> None:
    """Come to run a rank once the other host has one, and go."""
    assert host.stderr is not None
    next(line for line in host.stderr if "running ranks (1,)" in line)
    with reach(host_and_port(address), ranks_key()) as link:
        link.send(HostCame(1, versions()))
        assert link.recv().ranks == (2,)


def test_strangers_are_no_ranks(
    target: Path, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One says nothing, one does not speak as ranks do, and one has another key."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(host_links, "_HANDSHAKE_S", 1)
    made = list[LLM]()
    loading = threading.Thread(
        target=lambda: made.append(llm_of(target, tensor_parallel_size=2, rank_address=address))
    )
    loading.start()
    with joining(address, **{KEY: "another key"}) as other:
        assert other.wait(60) == 1
        assert other.stderr is not None and "set SPECGUIDE_RANKS_KEY" in other.stderr.read()
    host, port = address.split(":")
    place = host, int(port)
    with socket.create_connection(place), socket.create_connection(place) as link:
        link.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 4096)
        with joining(address):
            loading.join(120)
            (llm,) = made
            assert len(tokens(llm)) == 2
            llm.close()
    assert "dropped a connection from 127.0.0.1" in caplog.text


def test_what_cannot_be_is_told(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(InvalidParams, match=f"set the environment variable {KEY}"):
        llm_of(target, tensor_parallel_size=2, rank_address="127.0.0.1:29500")
    monkeypatch.setenv(KEY, "a key")
    with pytest.raises(InvalidParams, match="HOST:PORT"):
        llm_of(target, tensor_parallel_size=2, rank_address="29500")
    with pytest.raises(InvalidParams, match="several ranks"):
        EngineConfig(rank_address="127.0.0.1:29500")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"cannot listen at rank_address '{address}'"):
            llm_of(target, tensor_parallel_size=2, rank_address=address)
