"""A model with linear attention has the same outputs however the engine runs it: what the states
of slots take in is never taken back."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rank_threads
import tiny
import torch
from engine_families import FAMILIES
from misfits import HOLDING, check_a_sleeping_matcher
from random_requests import cases
from requests_of_every_kind import PATIENT
from tiny_engine import generate

from specguide import LLM, SpecConfig
from specguide.config import CacheConfig, EngineConfig, TransferConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.engine.executors import memory
from specguide.errors import CheckpointError, InvalidParams
from specguide.scheduler import saved_states

REQUESTS = cases(5, 10, temperature=0.0)
TREE = DynamicTree(3, 3, 8)
SPECS: dict[str, SpecConfig] = {
    "chain": SpecConfig("eagle3", num_draft_tokens=3),
    "tree": SpecConfig("eagle3", tree=TREE),
    "forced": SpecConfig("eagle3", num_draft_tokens=2, num_forced_tokens=4),
    "suffix": SpecConfig("suffix", num_draft_tokens=4, num_forced_tokens=2),
    "adaptive": SpecConfig("eagle3", num_draft_tokens=3, adaptive=True),
    "adaptive tree": SpecConfig("eagle3", tree=TREE, adaptive=True),
}
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "apart": {"mixed_iterations": False, "max_batch_size": 2},
    "chunks": {"max_prefill_tokens": 7, "lag": 2},
    "few pages": {"cache": CacheConfig(page_size=4, num_pages=40), "max_prefill_tokens": 16},
    "two ranks": {"tensor_parallel_size": 2},
    "two stages": {"pipeline_parallel_size": 2},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config_class, model_class, own = FAMILIES["qwen3.5"]
    folder = tmp_path_factory.mktemp("qwen")
    torch.manual_seed(0)
    model_class(config_class(**{**tiny.SETTINGS, **own})).save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return folder


def config(model: Path, **options: Any) -> EngineConfig:
    settings = {"guide": PATIENT, "dtype": "float32", "max_batch_size": 4, "spec": None}
    return EngineConfig(model, **(settings | options))


def drafts(name: str, head: Path) -> SpecConfig:
    spec = SPECS[name]
    return replace(spec, model=head) if spec.method == "eagle3" else spec


def outputs(config: EngineConfig) -> list[tuple[int, ...]]:
    llm = rank_threads.llm(config) if config.num_ranks > 1 else LLM.around(Engine(config))
    try:
        outs = llm.generate(*REQUESTS)
        assert not any(out.error for out in outs), [out.error for out in outs]
        llm._engine.check_integrity()
        return [out.token_ids for out in outs]
    finally:
        llm.close()


@pytest.fixture(scope="module")
def expected(model: Path) -> list[tuple[int, ...]]:
    """The outputs of requests one after the other."""
    return outputs(config(model, max_batch_size=1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [None, "chain", "tree"])
def test_ways(
    name: str | None,
    way: str,
    model: Path,
    folders: tuple[Path, Path],
    expected: list[tuple[int, ...]],
) -> None:
    spec = None if name is None else drafts(name, folders[1])
    assert outputs(config(model, spec=spec, **WAYS[way])) == expected


@pytest.mark.parametrize("name", [name for name in SPECS if name not in ("chain", "tree")])
def test_drafts(
    name: str, model: Path, folders: tuple[Path, Path], expected: list[tuple[int, ...]]
) -> None:
    assert outputs(config(model, spec=drafts(name, folders[1]))) == expected


@pytest.mark.parametrize("name", ["chain", "tree"])
def test_a_late_row_holds_its_slot(name: str, model: Path, folders: tuple[Path, Path]) -> None:
    """Its tokens are computed again, from the same states."""
    options = config(model, spec=drafts(name, folders[1]), guide=HOLDING)
    check_a_sleeping_matcher(LLM.around(Engine(options)), prompts=("ab", "ba"), times=3)


BEGINNINGS = ["the same words before each of them, " * 3, "and others, " * 9]
LONG_PROMPTS = [BEGINNINGS[at % 2] + text for at, text in enumerate(REQUESTS[0])]


@pytest.fixture(scope="module")
def expected_of_long(model: Path) -> list[tuple[int, ...]]:
    alone = LLM.around(Engine(config(model, max_batch_size=1, cache=CacheConfig(page_size=512))))
    return [out.token_ids for out in generate(alone, LONG_PROMPTS, REQUESTS[1])]


@pytest.mark.parametrize("way", ["as it is", "apart", "chunks", "two ranks", "two stages"])
@pytest.mark.parametrize("name", [None, "tree"])
def test_prompts_go_on_behind_saved_states(
    name: str | None,
    way: str,
    model: Path,
    folders: tuple[Path, Path],
    expected_of_long: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    least = 20 if name else 10_000  # also at the ends of prompts, or only where they part
    monkeypatch.setattr(saved_states, "_LEAST_SAVED", least)
    spec = None if name is None else drafts(name, folders[1])
    options = {"cache": CacheConfig(page_size=4, num_pages=400), "spec": spec, **WAYS[way]}
    given = config(model, **options)
    llm = rank_threads.llm(given) if given.num_ranks > 1 else LLM.around(Engine(given))
    for _ in range(2):
        outs = llm.generate(LONG_PROMPTS, REQUESTS[1])
        assert [out.token_ids for out in outs] == expected_of_long
        llm._engine.check_integrity()
    assert sum(out.metrics.num_cached for out in outs) > 100
    llm.close()


def test_the_size_of_states_is_told(model: Path) -> None:
    llm = LLM.around(Engine(config(model)))
    assert re.search(r"tokens\); [0-9.]+ MiB of states$", str(llm._engine.cache_size))
    llm.close()


def test_what_needs_pages_alone_is_refused(model: Path, folders: tuple[Path, Path]) -> None:
    with pytest.raises(InvalidParams, match="role 'decode' is not supported for a model with lin"):
        Engine(config(model, transfer=TransferConfig("decode")))
    with pytest.raises(CheckpointError, match=r"with linear attention .* cannot be a draft model"):
        LLM(folders[0], spec=SpecConfig("draft_model", model, 3))


def test_states_that_do_not_fit(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: 1 << 16)
    with pytest.raises(InvalidParams, match=r"states of linear attention need .* lower max_batch"):
        Engine(config(model))
