"""Prompts with images on a GPU, from captured graphs: the tokens of a CPU, and of the tokens that
stand for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_case import FP32
from image_engines import engine_with, outputs, some_prompts
from vision_folders import VISION_FAMILIES, picture, save_vision, tokenizer

from specguide import LLM, SamplingParams
from specguide.config import CacheConfig, EngineConfig, SpecConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine import Engine
from specguide.models.encoders import ImageEncoder, captured_blocks
from specguide.tokenizer.images import ImageReader

PARAMS = SamplingParams(max_tokens=24, ignore_eos=True)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "chunks": {"max_prefill_tokens": 24},
    "chunks of their own": {"max_prefill_tokens": 24, "mixed_iterations": False},
    "head": {"spec": SpecConfig(), "max_prefill_tokens": 32},
    "tree": {"spec": SpecConfig(tree=DynamicTree(top_k=2, depth=2, num_nodes=5))},
    "few pages": {"cache": CacheConfig(page_size=16, num_pages=24)},
}


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_images_count_as_the_embeddings_that_they_stand_for(kind: str) -> None:
    cases = some_prompts(len(kind), 40)
    plain = Engine(EngineConfig(max_model_len=256, max_batch_size=8, device="cpu"))
    expected = outputs(plain, [tokens for _, tokens in cases], PARAMS)
    fields = {"max_batch_size": 8, **FP32, **KINDS[kind]}
    engine, _ = engine_with(56, **fields)
    assert outputs(engine, [prompt for prompt, _ in cases], PARAMS) == expected
    engine.check_integrity()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name", ["Mistral3", "SmolVLM", "LlavaNext", "InternVL", "Qwen2_5_VL", "Qwen3VL", "Qwen3_5"]
)
def test_answers_about_images_are_those_of_a_cpu(name: str, tmp_path: Path) -> None:
    save_vision(name, tmp_path)
    messages = [
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this? " * (seed % 3)},
                    {"type": "image", "image": picture(seed % 4, 30 + 7 * (seed % 5), 40)},
                    {"type": "text", "text": "and"},
                    {"type": "image", "image": picture(9)},
                ],
            }
        ]
        for seed in range(12)
    ]
    answers = []
    for options in ({"device": "cpu"}, {**FP32, "spec": SpecConfig("ngram")}):
        llm = LLM(tmp_path, max_batch_size=4, max_prefill_tokens=96, **options)
        found = llm.chat(messages, PARAMS)
        assert all(output.error is None for output in found)
        answers.append([output.token_ids for output in found])
        llm.close()
    assert answers[0] == answers[1]


@pytest.mark.gpu
@pytest.mark.parametrize("name", VISION_FAMILIES)
def test_graphs_of_encoders_give_the_vectors_of_a_cpu(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = []
    capture = captured_blocks.capturing
    monkeypatch.setattr(
        captured_blocks, "capturing", lambda *args: captured.append(args) or capture(*args)
    )
    save_vision(name, tmp_path)
    pictures = [picture(seed, *size) for seed, size in enumerate(((40, 40), (56, 30), (30, 40)))]
    packs = [[0], [0, 1, 2], [1], [2, 1, 0]]

    def encoded(device: str, dtype: str, num_rounds: int) -> list[torch.Tensor]:
        encoder = ImageEncoder.load(tmp_path, torch.device(device), getattr(torch, dtype))
        reader = ImageReader.load(tmp_path, tokenizer(), 1, dtype)
        assert reader is not None
        images = [reader.prepare(one, "image") for one in pictures]
        made = [encoder.encode([images[i] for i in pack]) for pack in packs * num_rounds]
        return [vectors.float().cpu() for pack in made for vectors in pack]

    expected = encoded("cpu", "float32", 1)
    found = encoded("cuda", "bfloat16", 6)
    assert captured
    for own, other in zip(expected * 6, found, strict=True):
        assert (own - other).norm() < 0.02 * own.norm()
