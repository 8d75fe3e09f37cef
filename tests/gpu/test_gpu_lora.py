"""Requests with LoRA adapters have the same tokens from captured graphs as on a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_case import FP32
from lora_adapters import adapter
from random_requests import cases

from specguide import LLM, SpecConfig
from specguide.drafts.tree import DynamicTree

pytestmark = pytest.mark.gpu
SPECS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "chain": {"num_draft_tokens": 3},
    "tree": {"tree": DynamicTree(3, 3, 8)},
}


@pytest.mark.parametrize("spec", SPECS)
def test_tokens_are_those_of_a_cpu(spec: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    target, head = folders
    modules = [f"{name}={adapter(tmp_path / name, target, seed)}" for seed, name in enumerate("ab")]
    prompts, params = cases(1, 60, temperature=0.0)
    asked = [replace(one, lora=(None, "a", "b")[place % 3]) for place, one in enumerate(params)]
    settings = SPECS[spec]
    options = [("cpu", None)]
    if settings is None:
        options.append(("cuda", None))
    else:
        options.append(("cuda", SpecConfig("eagle3", head, **settings)))
    outputs = []
    for device, drafts in options:
        chosen = FP32 if device == "cuda" else {"device": device}
        llm = LLM(target, spec=drafts, lora_modules=modules, max_batch_size=8, **chosen)
        outs = llm.generate(prompts, asked)
        llm._engine.check_integrity()
        llm.close()
        outputs.append([out.token_ids for out in outs])
    assert outputs[0] == outputs[1]
