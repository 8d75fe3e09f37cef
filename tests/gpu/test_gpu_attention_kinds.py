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
from specguide.drafts.tree import DynamicTree

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


@pytest.mark.gpu2
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("way", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_two_gpus(
    way: str, model: Path, folders: tuple[Path, Path], expected: list[tuple[int, ...]]
) -> None:
    spec = SpecConfig("eagle3", folders[1], num_draft_tokens=3)
    assert tokens(model, spec=spec, **{way: 2}, **FP32) == expected
