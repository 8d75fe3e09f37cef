"""Families beside Llama in the engine: the tokens of transformers, guided or free, drafted or
not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from random_requests import cases
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from specguide import LLM, SamplingParams, SpecConfig

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "gemma3": (
        Gemma3TextConfig,
        Gemma3ForCausalLM,
        {
            "query_pre_attn_scalar": 8,
            "sliding_window": 9,
            "pad_token_id": None,
            "tie_word_embeddings": False,
        },
    ),
    "phi3": (
        Phi3Config,
        Phi3ForCausalLM,
        {
            "pad_token_id": None,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.75,
            },
        },
    ),
    "granite3": (
        GraniteConfig,
        GraniteForCausalLM,
        {
            "embedding_multiplier": 12.0,
            "attention_multiplier": 0.25,
            "residual_multiplier": 0.5,
            "logits_scaling": 8.0,
        },
    ),
    "olmo3": (Olmo3Config, Olmo3ForCausalLM, {"pad_token_id": None, "sliding_window": 9}),
    "ministral3": (
        Ministral3Config,
        Ministral3ForCausalLM,
        {
            "pad_token_id": None,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e4,
                "factor": 16.0,
                "original_max_position_embeddings": 16,
                "llama_4_scaling_beta": 0.1,
            },
        },
    ),
    "qwen3-moe": (
        Qwen3MoeConfig,
        Qwen3MoeForCausalLM,
        {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "mixtral": (MixtralConfig, MixtralForCausalLM, {"num_local_experts": 4}),
    "gpt-oss": (
        GptOssConfig,
        GptOssForCausalLM,
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 9,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            "attn_implementation": "eager",
        },
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PreTrainedModel, Path]:
    """A random model, and its folder."""
    config_class, model_class, own = FAMILIES[request.param]
    torch.manual_seed(0)
    model = model_class(config_class(**{**tiny.SETTINGS, **own})).eval()
    folder = tmp_path_factory.mktemp("family")
    model.save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return model, folder


def test_tokens_are_those_of_transformers(family: tuple[PreTrainedModel, Path]) -> None:
    model, folder = family
    prompts = [list(b"ab" * times) for times in (1, 7, 20)]
    params = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)
    outputs = LLM(folder, spec="suffix", device="cpu").generate(prompts, params)
    for prompt, output in zip(prompts, outputs, strict=True):
        ids = torch.tensor([[*prompt, *output.token_ids]])
        with torch.inference_mode():
            expected = model(ids).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert list(output.token_ids) == expected.tolist()


@pytest.mark.parametrize("method", ["suffix", "eagle3"])
def test_speculation_changes_no_token(
    family: tuple[PreTrainedModel, Path], folders: tuple[Path, Path], method: str
) -> None:
    """Two thirds of the requests are guided by a schema."""
    _, folder = family
    spec = SpecConfig(method, folders[1] if method == "eagle3" else None, 3)
    prompts, all_params = cases(3, 12, temperature=0.0)
    plain = LLM(folder, spec=None, max_batch_size=8).generate(prompts, all_params)
    llm = LLM(folder, spec=spec, max_batch_size=8)
    outputs = llm.generate(prompts, all_params)
    llm._engine.check_integrity()
    llm.close()
    assert [(out.token_ids, out.finish_reason, out.error) for out in outputs] == [
        (out.token_ids, out.finish_reason, None) for out in plain
    ]
    assert any(out.metrics.acceptance_length > 1.1 for out in outputs)
