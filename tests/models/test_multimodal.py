"""Folders with encoders of images: the text model alone is loaded, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from foreign_models import SETTINGS
from paging import Sequences
from random_models import tokens
from transformers import PreTrainedModel

from specguide.errors import CheckpointError
from specguide.models import load_decoder, read_config
from specguide.models.multimodal import text_name

VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}
QWEN_VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "depth": 1,
    "num_heads": 2,
    "out_hidden_size": 64,
    "patch_size": 4,
}
SECTIONS = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 3, 2]}
TEXT = {name: value for name, value in SETTINGS.items() if name != "attn_implementation"} | {
    "head_dim": 16
}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Gemma3": ({"query_pre_attn_scalar": 40, "sliding_window": 7}, VISION),
    "Mistral3": ({"model_type": "mistral", "sliding_window": None}, VISION),
    "Llava": ({"model_type": "llama"}, VISION),
    "SmolVLM": ({"model_type": "llama"}, VISION),
    "Qwen2_5_VL": ({"rope_parameters": SECTIONS}, QWEN_VISION),
    "Qwen3VL": ({"rope_parameters": {**SECTIONS, "mrope_interleaved": True}}, QWEN_VISION),
    "LlavaNext": ({"model_type": "starcoder2", "sliding_window": 7}, VISION),
}
"""By the name before `ForConditionalGeneration`: settings of the text and of the encoder. The text
of the last has no family here."""


def save(name: str, folder: Path) -> PreTrainedModel:
    """A small random model, and its folder."""
    torch.manual_seed(0)
    text, vision = CASES[name]
    config = getattr(transformers, f"{name}Config")(
        text_config={**TEXT, **text}, vision_config=vision, tie_word_embeddings=name == "Gemma3"
    )
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    model.save_pretrained(folder)
    return model


@torch.inference_mode()
def logits(folder: Path, ids: torch.Tensor) -> torch.Tensor:
    with pytest.warns(UserWarning, match="the text model alone is loaded"):
        decoder = load_decoder(folder)
    sequences = Sequences(1, len(ids))
    cache = sequences.cache(decoder.config)
    parts = []
    for chunk in ids.split(23):
        context = sequences.extend([len(chunk)])
        parts.append(decoder.logits(decoder.forward(chunk, context, cache)[0]))
    return torch.cat(parts)


@pytest.mark.parametrize("name", CASES)
def test_logits_of_a_text_equal_transformers(name: str, tmp_path: Path) -> None:
    model = save(name, tmp_path)
    ids = tokens(40)
    with torch.inference_mode():
        expected = model(input_ids=ids[None]).logits[0]
    assert expected.std() > 0.01
    torch.testing.assert_close(logits(tmp_path, ids), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("language_model.model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
        ("model.language_model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("model.text_model.norm.weight", "model.norm.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight"),
        ("vision_tower.language_model.x", "vision_tower.language_model.x"),
    ],
)
def test_names_of_tensors_in_every_layout(stored: str, name: str) -> None:
    assert text_name(stored) == name


def test_other_models_of_images_are_refused_by_name(tmp_path: Path) -> None:
    fields = {"architectures": ["PaliGemmaForConditionalGeneration"], "model_type": "paligemma"}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match="'PaliGemmaForConditionalGeneration' is unknown"):
        read_config(tmp_path)
