"""Stages of a pipeline give the tokens of one process, hold their own layers alone, and end with
the name of the rank that fails."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import rank_threads
import tiny
import torch
from paging import Sequences
from requests_of_every_kind import PATIENT, PROMPTS, SPECS, failure, outputs

from specguide import LLM, SamplingParams
from specguide.config import CacheConfig, EngineConfig
from specguide.engine import Engine
from specguide.engine.setup.facts import resolved
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.errors import InvalidParams
from specguide.kernels.attention import JoinedContext
from specguide.kernels.attention.micro_batches import micro_batches
from specguide.models import Decoder, load_decoder
from specguide.models.staged import StagedDecoder
from specguide.parallel import Stage


@pytest.mark.parametrize("name", SPECS)
def test_two_stages_give_the_tokens_of_one(one_process, name):
    config = EngineConfig(spec=SPECS[name], guide=PATIENT, max_model_len=256, dtype="float32")
    two = replace(config, pipeline_parallel_size=2)
    assert outputs(rank_threads.llm(two)) == one_process


@pytest.mark.parametrize("settings", [(3, 1, 2), (2, 1, 1), (2, 1, 4), (2, 2, 2)])
def test_stages_ranks_and_micro_batches_agree(one_process, settings):
    num_stages, num_ranks, num_micro_batches = settings
    config = EngineConfig(
        guide=PATIENT,
        max_model_len=256,
        pipeline_parallel_size=num_stages,
        tensor_parallel_size=num_ranks,
        num_micro_batches=num_micro_batches,
    )
    assert outputs(rank_threads.llm(config)) == one_process


def prefixed(config: EngineConfig) -> list[tuple[int, ...]]:
    """The tokens of long prompts that begin alike, in chunks, and again where their keys are still
    there."""
    llm = rank_threads.llm(config) if config.num_ranks > 1 else LLM.around(Engine(config))
    prompts = ["the same beginning, " * 3 + end for end in PROMPTS]
    params = SamplingParams(max_tokens=6)
    found = [*llm.generate(prompts, params), *llm.generate(prompts, params)]
    llm.close()
    return [tuple(output.token_ids) for output in found]


def test_chunks_and_found_prefixes_agree():
    config = EngineConfig(
        guide=None, max_model_len=128, max_prefill_tokens=16, cache=CacheConfig(page_size=4)
    )
    assert prefixed(replace(config, pipeline_parallel_size=2)) == prefixed(config)


def num_bytes(decoder: Decoder) -> int:
    """Number of bytes of the decoder's own tensors."""
    return sum(it.tensor.nbytes for it in decoder.destinations().values())


def test_a_stage_holds_its_layers_alone():
    config = EngineConfig(guide=None, pipeline_parallel_size=2, max_model_len=64)
    executor = rank_threads.executor(config)
    stage = executor._own.step._iteration._passes
    whole, part = load_decoder(SHIPPED_MODEL / "target"), stage._target
    num_layers, held = whole.config.num_layers, len(part.layers)
    assert isinstance(part, StagedDecoder) and held == -(-num_layers // 2)
    assert stage._cache.num_layers == held
    ends = num_bytes(whole) - sum(
        it.tensor.nbytes for layer in whole.layers for it in layer.destinations().values()
    )
    assert num_bytes(part) - ends == (num_bytes(whole) - ends) * held // num_layers
    executor.close()


@pytest.mark.parametrize("num", [1, 2, 3, 5])
def test_layers_are_divided_without_gap(num):
    ranges = [Stage(index, num).layers(11) for index in range(num)]
    assert ranges[0].start == 0 and ranges[-1].stop == 11
    assert all(first.stop == second.start for first, second in pairwise(ranges))
    assert {len(it) for it in ranges} <= {11 // num, -(-11 // num)}


@pytest.mark.parametrize("num", [1, 2, 4, 9])
def test_micro_batches_are_all_of_a_pass(num):
    sequences = Sequences(4, 8)
    first, second = sequences.extend([3, 0, 2, 1]), sequences.extend([1, 1, 1, 1])
    for context in (first, second, JoinedContext(first, second)):
        parts = micro_batches(context, num)
        assert len(parts) <= num
        assert [tokens.stop for _, tokens in parts][:-1] == [it.start for _, it in parts][1:]
        for name in ("position_ids", "slot_mapping"):
            pieces = [getattr(part, name) for part, _ in parts]
            assert torch.equal(torch.cat(pieces), getattr(context, name))


def test_a_stage_that_stalls_is_named(target, monkeypatch):
    config = EngineConfig(target, guide=None, pipeline_parallel_size=2, rank_timeout_s=2.0)
    llm = rank_threads.llm(config)
    monkeypatch.setattr(rank_threads.ThreadFollower, "tell", lambda self, message: None)
    assert re.search(r"rank 1 is stalled.*rank_timeout_s", failure(llm))
    llm.close()


def test_a_stage_that_fails_is_named(target, monkeypatch):
    llm = rank_threads.llm(EngineConfig(target, guide=None, pipeline_parallel_size=2))

    def fail(*given):
        raise MemoryError("no room is left")

    monkeypatch.setattr(StagedDecoder, "_finish", fail)
    assert "rank 1 failed: MemoryError: no room is left" in failure(llm)
    llm.close()


def test_fewer_layers_than_stages_are_refused_before_there_are_stages(target):
    for num in (tiny.NUM_LAYERS + 1, 10**20):
        config = EngineConfig(target, guide=None, pipeline_parallel_size=num)
        with pytest.raises(InvalidParams, match=f"size to {tiny.NUM_LAYERS} or less"):
            resolved(config)


def test_transformers_modules_are_refused(target):
    with pytest.raises(InvalidParams, match="pipeline_parallel_size"):
        load_decoder(target, model_impl="transformers", stage=Stage(0, 2))
