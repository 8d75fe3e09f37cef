"""Small random models with encoders of images beside their text model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from foreign_models import SETTINGS
from random_models import EXPERTS, LINEAR_EXPERTS, LINEAR_SETTINGS
from transformers import PreTrainedModel

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
GEMMA4 = {
    "global_head_dim": 32,
    "sliding_window": 7,
    "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    "pad_token_id": 0,
}

MULTIMODAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Gemma3": ({"query_pre_attn_scalar": 40, "sliding_window": 7}, VISION),
    "Gemma4": (
        {
            **GEMMA4,
            "hidden_size_per_layer_input": 12,
            "vocab_size_per_layer_input": 97,
            "num_kv_shared_layers": 1,
        },
        {**VISION, "patch_size": 2, "pooling_kernel_size": 2, "position_embedding_size": 16},
    ),
    "Gemma4Unified": (GEMMA4, {}),
    "Mistral3": ({"model_type": "mistral", "sliding_window": None}, VISION),
    "Llava": ({"model_type": "llama"}, VISION),
    "SmolVLM": ({"model_type": "llama"}, VISION),
    "Qwen2_5_VL": ({"rope_parameters": SECTIONS}, QWEN_VISION),
    "Qwen3_5": (LINEAR_SETTINGS, QWEN_VISION),
    "Qwen3_5Moe": ({**LINEAR_EXPERTS, **EXPERTS}, QWEN_VISION),
    "Qwen3VL": ({"rope_parameters": {**SECTIONS, "mrope_interleaved": True}}, QWEN_VISION),
    "Idefics3": ({"model_type": "llama"}, VISION),
    "InternVL": ({"model_type": "qwen3"}, {**VISION, "image_size": [8, 8], "patch_size": [4, 4]}),
    "LlavaOnevision": ({"model_type": "qwen2"}, VISION),
    "Qwen2VL": ({"rope_parameters": SECTIONS}, {**QWEN_VISION, "embed_dim": 16}),
    "VipLlava": ({"model_type": "llama"}, VISION),
    "LlavaNext": ({"model_type": "starcoder2", "sliding_window": 7}, VISION),
}
"""By the name before `ForConditionalGeneration`: settings of the text and of the encoder. The text
of the last has no family here."""


def save_multimodal(name: str, folder: Path) -> PreTrainedModel:
    """A small random model, and its folder."""
    torch.manual_seed(0)
    text, vision = MULTIMODAL[name]
    config = getattr(transformers, f"{name}Config")(
        text_config={**TEXT, **text},
        vision_config=vision,
        tie_word_embeddings=name.startswith("Gemma"),
    )
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    model.save_pretrained(folder)
    return model
