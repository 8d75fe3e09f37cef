"""Small random models that read images: folders with weights, tokenizer, processor and template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from multimodal_models import LINEAR_EXPERTS, LINEAR_SETTINGS, SECTIONS, TEXT
from PIL import Image
from random_models import EXPERTS
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

SPECIAL = (
    "<|im_start|>",
    "<|im_end|>",
    "<image>",
    "<fake_token_around_image>",
    "<end_of_utterance>",
    "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in (1, 2, 3, 4) for column in (1, 2, 3, 4)),
    "[IMG]",
    "[IMG_BREAK]",
    "[IMG_END]",
    "<|image_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<IMG_CONTEXT>",
    "<img>",
    "</img>",
)
OWN = {"vocab_size": 256 + len(SPECIAL), "max_position_embeddings": 512}
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 7,
}
_QWEN = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "depth": 2,
    "num_heads": 2,
    "out_hidden_size": 64,
    "patch_size": 4,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
}
_QWEN_PIXELS = {"shortest_edge": 64, "longest_edge": 4096}
_QWEN_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "patch_size": 4,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "min_pixels": 64,
    "max_pixels": 4096,
    "size": _QWEN_PIXELS,
}
_SIZE = {"height": 28, "width": 28}
_SQUARE = {"size": {"shortest_edge": 28}, "crop_size": _SIZE}
_LLAVA = {"vision_feature_select_strategy": "default", "vision_feature_layer": -1}
_CLIP = {**_VISION, "model_type": "clip_vision_model"}
_PIXTRAL = (
    {**_VISION, "model_type": "pixtral", "patch_size": 4, "image_size": 64},
    {
        "image_processor_type": "PixtralImageProcessor",
        "size": {"longest_edge": 64},
        "patch_size": {"height": 4, "width": 4},
    },
    "[IMG]",
)
_IDEFICS_PROCESSOR = {
    "size": {"longest_edge": 56},
    "max_image_size": {"longest_edge": 28},
    "image_seq_len": 4,
}

VISION_FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "Llava": ({"model_type": "llama"}, _CLIP, _SQUARE, "<image>"),
    "VipLlava": ({"model_type": "llama"}, _CLIP, _SQUARE, "<image>"),
    "LlavaNext": (
        {"model_type": "mistral", "sliding_window": None},
        _CLIP,
        {**_SQUARE, "image_grid_pinpoints": [[28, 56], [56, 28], [56, 56]]},
        "<image>",
    ),
    "Mistral3": ({"model_type": "mistral", "sliding_window": None}, *_PIXTRAL),
    "Llava of Pixtral": ({"model_type": "mistral", "sliding_window": None}, *_PIXTRAL),
    "InternVL": (
        {"model_type": "qwen3"},
        {**_VISION, "image_size": [28, 28], "patch_size": [7, 7]},
        # published folders say so as well, and are cut into tiles
        {"size": _SIZE, "crop_to_patches": False, "max_patches": 4},
        "<IMG_CONTEXT>",
    ),
    "Idefics3": ({"model_type": "llama"}, _VISION, _IDEFICS_PROCESSOR, "<image>"),
    "SmolVLM": ({"model_type": "llama"}, _VISION, _IDEFICS_PROCESSOR, "<image>"),
    "Qwen2VL": (
        {"rope_parameters": SECTIONS},
        {**_QWEN, "embed_dim": 16, "hidden_size": 64},
        _QWEN_PROCESSOR,
        "<|image_pad|>",
    ),
    "Qwen2_5_VL": ({"rope_parameters": SECTIONS}, _QWEN, _QWEN_PROCESSOR, "<|image_pad|>"),
    "Qwen3VL": (
        {"rope_parameters": {**SECTIONS, "mrope_interleaved": True}, "num_hidden_layers": 4},
        {**_QWEN, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64},
        _QWEN_PROCESSOR,
        "<|image_pad|>",
    ),
    "Qwen3_5": (
        LINEAR_SETTINGS,
        {**_QWEN, "num_position_embeddings": 64},
        _QWEN_PROCESSOR,
        "<|image_pad|>",
    ),
    "Qwen3_5Moe": (
        {**LINEAR_EXPERTS, **EXPERTS},
        {**_QWEN, "num_position_embeddings": 64},
        _QWEN_PROCESSOR,
        "<|image_pad|>",
    ),
}
"""By the name before `ForConditionalGeneration`, and the tower's where it is another: settings of
the text model, of the encoder and of the image processor, and the token that stands for an
image."""


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, with the special tokens of all families."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({char: index for index, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")


def save_vision(name: str, folder: Path) -> PreTrainedModel:
    """A small random model of a family, and its folder."""
    torch.manual_seed(0)
    text, vision, processor, placeholder = VISION_FAMILIES[name]
    chat = tokenizer()
    image_id = chat.convert_tokens_to_ids(placeholder)
    fields: dict[str, Any] = {"image_token_id": image_id, "image_token_index": image_id}
    if name in ("Llava", "LlavaNext"):
        fields |= _LLAVA
    if name == "Llava of Pixtral":
        fields |= {**_LLAVA, "vision_feature_select_strategy": "full"}
    if name == "LlavaNext":
        fields["image_grid_pinpoints"] = processor["image_grid_pinpoints"]
    if name == "VipLlava":
        fields["vision_feature_layers"] = [-1, -2]
    if name == "InternVL":
        fields["image_seq_length"] = 4
    kind = name.split()[0]
    config = getattr(transformers, f"{kind}Config")(
        text_config={**TEXT, **OWN, **text},
        vision_config=vision,
        tie_word_embeddings=False,
        **fields,
    )
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
    model.save_pretrained(folder)
    chat.chat_template = TEMPLATE.replace("IMAGE", placeholder)
    chat.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model


def picture(seed: int, width: int = 50, height: int = 30) -> Image.Image:
    """A picture of random colours."""
    numbers = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(numbers)
