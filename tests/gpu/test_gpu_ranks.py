"""Two and four GPUs of a host give the tokens of one, as ranks and as stages."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import collective_contract
import pytest
import tiny
import torch
from engine_families import FAMILIES
from requests_of_every_kind import PATIENT, SPECS, failure, outputs

from specguide import LLM, SpecConfig
from specguide.config import EngineConfig
from specguide.engine import Engine

pytestmark = [
    pytest.mark.gpu2,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]
MEMORIES = pytest.mark.parametrize("shares_memory", [False, True], ids=["nccl", "shared"])
needs_four = pytest.mark.skipif(torch.cuda.device_count() < 4, reason="needs four CUDA devices")
RANKS = pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=needs_four)])


def config_of(name: str) -> EngineConfig:
    return EngineConfig(
        spec=SPECS[name], guide=PATIENT, max_model_len=256, dtype="float32", device="cuda"
    )


def check(config: EngineConfig, **several: int) -> None:
    """Check that several processes' outputs are those of one."""
    assert tokens(replace(config, **several)) == tokens(config)


def tokens(config: EngineConfig) -> list[tuple[int, ...]]:
    """The tokens of an engine that leaves nothing on the GPUs, which the next one wants as a
    whole."""
    return outputs(LLM.around(Engine(config)))


@pytest.mark.parametrize("name", SPECS)
def test_two_stages_give_the_tokens_of_one(name: str) -> None:
    check(config_of(name), pipeline_parallel_size=2)


def config_of_family(name: str, folder: Path, head: Path, **settings: object) -> EngineConfig:
    """The configuration of an engine with random weights, which are saved in `folder`."""
    config_class, model_class, own = FAMILIES[name]
    torch.manual_seed(0)
    model_class(config_class(**{**tiny.SETTINGS, **own, **settings})).save_pretrained(folder)
    tiny.save_tokenizer(folder)
    spec = SpecConfig("eagle3", head, 3)
    return EngineConfig(folder, spec, PATIENT, max_model_len=256, dtype="float32", device="cuda")


@pytest.mark.parametrize("name", ["mixtral", "gpt-oss"])
def test_whole_experts_give_the_tokens_of_one(
    name: str, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    config = config_of_family(name, tmp_path, folders[1])
    check(config, tensor_parallel_size=2, enable_expert_parallel=True)


def test_ranks_that_share_heads_give_the_tokens_of_one(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """Ranks share heads of keys and values."""
    config = config_of_family("qwen3", tmp_path, folders[1], num_key_value_heads=1)
    check(config, tensor_parallel_size=2)


@pytest.fixture
def memory(shares_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ranks share memory as they do by default, or share none."""
    if shares_memory:
        monkeypatch.delenv("SPECGUIDE_SHARED_MEMORY", raising=False)
    else:
        monkeypatch.setenv("SPECGUIDE_SHARED_MEMORY", "0")


@MEMORIES
@pytest.mark.usefixtures("memory")
@RANKS
def test_gpus_do_together_what_collectives_say(num_ranks: int, shares_memory: bool) -> None:
    collective_contract.check_in_processes("cuda", shares_memory=shares_memory, num_ranks=num_ranks)


@MEMORIES
@pytest.mark.usefixtures("memory")
@RANKS
@pytest.mark.parametrize("name", SPECS)
def test_ranks_give_the_tokens_of_one(name: str, num_ranks: int) -> None:
    check(config_of(name), tensor_parallel_size=num_ranks)


@needs_four
@pytest.mark.parametrize("name", ["eagle3", "tree"])
def test_two_stages_of_two_ranks_give_the_tokens_of_one(name: str) -> None:
    check(config_of(name), tensor_parallel_size=2, pipeline_parallel_size=2)


@MEMORIES
@pytest.mark.usefixtures("memory")
def test_a_rank_that_is_killed_is_named() -> None:
    llm = LLM(tensor_parallel_size=2, max_model_len=64, device="cuda")
    (process_id,) = llm._shared._engine._executor.process_ids
    os.kill(process_id, signal.SIGKILL)
    assert "rank 1" in failure(llm)
    llm.close()
