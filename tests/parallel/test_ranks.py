"""Several ranks give the tokens of one, and end with the name of the rank that fails."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import rank_threads
import tiny
import torch
from engine_families import FAMILIES
from requests_of_every_kind import PATIENT, SPECS, failure, outputs

from specguide import LLM, SamplingParams, SpecConfig
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors import RanksExecutor, followers
from specguide.engine.executors.followers import Follower
from specguide.engine.executors.local import load_models
from specguide.engine.executors.rank_process import READY, Execute, RankBuild
from specguide.engine.setup.facts import resolved
from specguide.errors import EngineError, InvalidParams

IMPORT = "from specguide.engine.executors.rank_process import main"


@pytest.mark.parametrize("name", SPECS)
def test_two_ranks_give_the_tokens_of_one(one_process, name):
    config = EngineConfig(spec=SPECS[name], guide=PATIENT, max_model_len=256, dtype="float32")
    two = replace(config, tensor_parallel_size=2)
    assert outputs(rank_threads.llm(two)) == one_process


@pytest.mark.parametrize("name", ["mixtral", "gpt-oss", "deepseek3", "gemma4-experts"])
def test_ranks_with_whole_experts_give_the_tokens_of_one(name, folders, tmp_path):
    config_class, model_class, own = FAMILIES[name]
    torch.manual_seed(0)
    model_class(config_class(**{**tiny.SETTINGS, **own})).save_pretrained(tmp_path)
    tiny.save_tokenizer(tmp_path)
    spec = SpecConfig("eagle3", folders[1], 3)
    config = EngineConfig(tmp_path, spec, PATIENT, max_model_len=256, dtype="float32")
    two = replace(config, tensor_parallel_size=2, enable_expert_parallel=True)
    assert outputs(rank_threads.llm(two)) == outputs(LLM.around(Engine(config)))


def test_a_rank_that_diverges_is_named(target, monkeypatch):
    config = EngineConfig(target, guide=None, tensor_parallel_size=2, max_model_len=64)
    executor = rank_threads.executor(config)
    llm = LLM.around(Engine(config, executor))
    tell = rank_threads.ThreadFollower.tell

    def tell_otherwise(self, message):
        if isinstance(message, Execute) and message.batch.chunks:
            entry = message.batch.entries[0]
            other = replace(entry, sampling=entry.sampling._replace(seed=entry.sampling.seed + 1))
            message = Execute(replace(message.batch, entries=(other,)))
        tell(self, message)

    monkeypatch.setattr(rank_threads.ThreadFollower, "tell", tell_otherwise)
    params = SamplingParams(max_tokens=20, temperature=2.0, seed=1)
    assert "rank 1 diverges" in failure(llm, params)
    llm.close()


def test_a_rank_that_stalls_is_named(target, monkeypatch):
    config = EngineConfig(target, guide=None, tensor_parallel_size=2, rank_timeout_s=3.0)
    llm = rank_threads.llm(config)
    monkeypatch.setattr(rank_threads.ThreadFollower, "tell", lambda self, message: None)
    assert re.search(r"rank 1 is stalled.*rank_timeout_s", failure(llm))
    assert "rank 1 is stalled" in failure(llm)
    llm.close()


def test_a_rank_that_is_stopped_before_its_first_word_is_named(target, monkeypatch):
    monkeypatch.setattr(followers, "START_S", 0.5)

    def stopped(rank, timeout_s):
        follower = Follower.started(rank, timeout_s)
        os.kill(follower.process.pid, signal.SIGSTOP)
        return follower

    config = resolved(EngineConfig(target, tensor_parallel_size=2, rank_timeout_s=1.0))
    with pytest.raises(EngineError, match=r"rank 1 .* did not start within 1 s.*rank_timeout_s"):
        RanksExecutor.load(config, stopped)


@pytest.mark.parametrize("size", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_a_rank_that_is_killed_is_named(target, size):
    llm = LLM(target, max_model_len=64, **{size: 2})
    assert llm.generate(["abc"], SamplingParams(max_tokens=4))[0].error is None
    (process_id,) = llm._shared._engine._executor.process_ids
    os.kill(process_id, signal.SIGKILL)
    assert f"rank 1 (process {process_id}) was ended by SIGKILL" in failure(llm)
    llm.close()
    assert not Path(f"/proc/{process_id}").exists()


def test_a_terminals_interrupt_is_rank_0s_to_answer(target):
    llm = LLM(target, tensor_parallel_size=2, max_model_len=64)
    (process_id,) = llm._shared._engine._executor.process_ids
    os.kill(process_id, signal.SIGINT)
    assert llm.generate(["abc"], SamplingParams(max_tokens=4))[0].error is None
    llm.close()


def test_a_rank_that_is_gone_is_named_where_rank_0_fails_for_want_of_it(target, monkeypatch):
    llm = rank_threads.llm(EngineConfig(target, tensor_parallel_size=2, max_model_len=64))
    executor = llm._shared._engine._executor
    (follower,) = executor._followers

    def abort(*batch):
        monkeypatch.setattr(follower, "end_in_words", lambda: "rank 1 was ended by SIGKILL")
        raise RuntimeError("the communicator was aborted on rank 0")

    monkeypatch.setattr(executor._own.step, "launch", abort)
    assert "rank 1 was ended by SIGKILL" in failure(llm)
    llm.close()


def test_rank_0_is_named_where_it_fails_itself(target, monkeypatch):
    config = EngineConfig(target, guide=None, tensor_parallel_size=2)
    executor = rank_threads.executor(config)
    llm = LLM.around(Engine(config, executor))

    def fail(*batch):
        raise EngineError("the step broke")

    monkeypatch.setattr(type(executor._own.step), "launch", fail)
    assert "rank 0 failed: EngineError: the step broke" in failure(llm)
    llm.close()


def test_rank_0_is_named_where_it_cannot_load_its_part(target):
    config = resolved(EngineConfig(target, guide=None, tensor_parallel_size=2))
    with pytest.raises(EngineError, match="could not start: rank 0 failed: MemoryError: no room"):
        RanksExecutor.load(config, rank_threads.ThreadFollower, RankBuild(full_on_rank_0))


def full_on_rank_0(config, ranks, stage):
    if ranks.rank == 0:
        raise MemoryError("no room is left")
    return load_models(config, ranks, stage)


def test_ranks_end_with_a_parent_that_is_killed():
    ours, theirs = socket.socketpair()
    run = f"import os; {IMPORT}; main({theirs.fileno()}, os.getppid())"
    shell = f"{shlex.quote(sys.executable)} -c {shlex.quote(run)} & wait"
    with subprocess.Popen(["sh", "-c", shell], pass_fds=[theirs.fileno()]) as parent:
        theirs.close()
        rank = Connection(ours.detach())
        assert rank.recv() == READY
        parent.kill()
        assert rank.poll(120)
        with pytest.raises(EOFError):
            rank.recv()
    rank.close()


def test_a_rank_whose_rank_0_is_gone_ends_without_a_word():
    ours, theirs = socket.socketpair()
    ours.close()
    run = f"{IMPORT}; main({theirs.fileno()}, {os.getpid()})"
    command = [sys.executable, "-c", run]
    ended = subprocess.run(command, pass_fds=[theirs.fileno()], capture_output=True, text=True)
    theirs.close()
    assert ended.returncode == 0 and "Traceback" not in ended.stderr, ended.stderr


def test_heads_that_ranks_cannot_divide_are_refused_before_there_are_ranks(target):
    config = EngineConfig(target, guide=None, tensor_parallel_size=10**20)
    with pytest.raises(InvalidParams, match=f"cannot be divided evenly among {10**20} ranks"):
        resolved(config)


def test_logits_processors_are_refused(target):
    llm = rank_threads.llm(EngineConfig(target, guide=None, tensor_parallel_size=2))
    params = SamplingParams(max_tokens=2, logits_processors=[lambda ids, logits: logits])
    error = llm.generate(["abc"], params)[0].error
    assert isinstance(error, InvalidParams) and "tensor_parallel_size" in str(error)
    llm.close()
