"""Models with other attention have the same tokens on a GPU, from captured graphs, as on a CPU:
latent attention beside groups of experts, linear attention, scores with a limit, and keys of two
shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from engine_families import FAMILIES
from gpu_case import FP32
from random_requests import cases

from specguide import LLM, SpecConfig
from specguide.config import CacheConfig
from specguide.drafts.tree import DynamicTree
from specguide.scheduler import saved_states

SPECS: dict[str, dict[str, Any]] = {
    "chain": {"num_draft_tokens": 3},
    "tree": {"tree": DynamicTree(3, 3, 8)},
}


@pytest.fixture(
    scope="module", params=["deepseek3", "qwen3.5", "qwen3-next", "gemma2", "gemma4-experts"]
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config_class, model_class, own = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    model_class(config_class(**{**tiny.SETTINGS, **own})).save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return folder


def tokens(folder: Path, **options: Any) -> list[tuple[int, ...]]:
    llm = LLM(folder, max_batch_size=8, **options)
    outputs = llm.generate(*cases(1, 60, temperature=0.0))
    llm._engine.check_integrity()
    llm.close()
    return [output.token_ids for output in outputs]


@pytest.fixture(scope="module")
def expected(model: Path) -> list[tuple[int, ...]]:
    return tokens(model, spec=None, device="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", [None, *SPECS])
def test_captured(
    name: str | None, model: Path, folders: tuple[Path, Path], expected: list[tuple[int, ...]]
) -> None:
    spec = None if name is None else SpecConfig("eagle3", folders[1], **SPECS[name])
    assert tokens(model, spec=spec, **FP32) == expected


@pytest.mark.gpu
@pytest.mark.parametrize("name", SPECS)
def test_saved_states(
    name: str,
    model: Path,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prompts with the same beginnings go on behind what others computed."""
    monkeypatch.setattr(saved_states, "_LEAST_SAVED", 20)
    prompts, params = cases(5, 24, temperature=0.0)
    shared = ("the same words before each of them, " * 3, "and others, " * 9)
    prompts = [shared[i % 2] + prompt for i, prompt in enumerate(prompts)]
    expected = LLM(model, spec=None, device="cpu", max_batch_size=1).generate(prompts, params)
    spec = SpecConfig("eagle3", folders[1], **SPECS[name])
    cache = CacheConfig(page_size=4, num_pages=1200)
    with LLM(model, spec=spec, cache=cache, max_batch_size=8, **FP32) as llm:
        for _ in range(2):
            outputs = llm.generate(prompts, params)
            assert [o.token_ids for o in outputs] == [o.token_ids for o in expected]
    assert sum(output.metrics.num_cached for output in outputs) > 0


@pytest.mark.gpu2
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("way", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_two_gpus(
    way: str, model: Path, folders: tuple[Path, Path], expected: list[tuple[int, ...]]
) -> None:
    spec = SpecConfig("eagle3", folders[1], num_draft_tokens=3)
    assert tokens(model, spec=spec, **{way: 2}, **FP32) == expected
