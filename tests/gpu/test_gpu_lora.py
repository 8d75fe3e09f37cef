"""Requests with LoRA adapters have the same tokens on GPUs, from captured graphs, as on a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_case import FP32
from lora_adapters import adapter
from random_requests import cases

from specguide import LLM, SpecConfig
from specguide.drafts.tree import DynamicTree

SPECS: dict[str, dict[str, Any]] = {
    "chain": {"num_draft_tokens": 3},
    "tree": {"tree": DynamicTree(3, 3, 8)},
}


def tokens(target: Path, folder: Path, **options: Any) -> list[tuple[int, ...]]:
    """The outputs of requests with either of two adapters, or none."""
    modules = [f"{name}={adapter(folder / name, target, seed)}" for seed, name in enumerate("ab")]
    prompts, params = cases(1, 60, temperature=0.0)
    asked = [replace(one, lora=(None, "a", "b")[place % 3]) for place, one in enumerate(params)]
    llm = LLM(target, lora_modules=modules, max_batch_size=8, **options)
    outs = llm.generate(prompts, asked)
    llm._engine.check_integrity()
    llm.close()
    return [out.token_ids for out in outs]


@pytest.mark.gpu
@pytest.mark.parametrize("name", [None, *SPECS])
def test_captured(name: str | None, folders: tuple[Path, Path], tmp_path: Path) -> None:
    target, head = folders
    spec = None if name is None else SpecConfig("eagle3", head, **SPECS[name])
    expected = tokens(target, tmp_path, spec=None, device="cpu")
    assert tokens(target, tmp_path, spec=spec, **FP32) == expected


@pytest.mark.gpu2
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("way", ["tensor_parallel_size", "pipeline_parallel_size"])
def test_two_gpus(way: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    target, head = folders
    spec = SpecConfig("eagle3", head, num_draft_tokens=3)
    expected = tokens(target, tmp_path, spec=None, device="cpu")
    assert tokens(target, tmp_path, spec=spec, **{way: 2}, **FP32) == expected
