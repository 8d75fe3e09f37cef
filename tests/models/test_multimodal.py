"""Folders with encoders of images: only the text model is loaded, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from checkpoint_files import changed_json
from float8_checkpoints import FORMATS
from multimodal_models import MULTIMODAL, save_multimodal
from paging import Sequences
from random_models import tokens

from specguide.errors import CheckpointError
from specguide.layers.quantization import read_quantization
from specguide.models import load_decoder, read_config
from specguide.models.multimodal import text_name


@torch.inference_mode()
def logits(folder: Path, ids: torch.Tensor) -> torch.Tensor:
    with pytest.warns(UserWarning, match="only the text model is loaded"):
        decoder = load_decoder(folder)
    sequences = Sequences(1, len(ids))
    cache = sequences.cache(decoder.config)
    parts = []
    for chunk in ids.split(23):
        context = sequences.extend([len(chunk)])
        parts.append(decoder.logits(decoder.forward(chunk, context, cache)[0]))
    return torch.cat(parts)


@pytest.mark.parametrize("name", MULTIMODAL)
def test_logits_of_a_text_equal_transformers(name: str, tmp_path: Path) -> None:
    model = save_multimodal(name, tmp_path)
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
        ("model.language_model.lm_head", "lm_head"),
        ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight"),
        ("vision_tower.language_model.x", "vision_tower.language_model.x"),
    ],
)
def test_names_of_tensors_in_every_layout(stored: str, name: str) -> None:
    assert text_name(stored) == name


def test_fields_of_encoders_among_those_of_the_text(tmp_path: Path) -> None:
    save_multimodal("SmolVLM", tmp_path)
    expected = read_config(tmp_path)
    odd = {"pixel_shuffle_factor": 4, "perceiver_config": {"model_type": "vllama3"}}
    with changed_json(tmp_path) as config:
        config["text_config"] |= {**odd, "use_resampler": False, "qk_layer_norms": False}
    assert read_config(tmp_path) == expected


@pytest.mark.parametrize("name", ["Mistral3", "Gemma3"])
def test_a_folder_that_does_not_say_whether_embeddings_are_tied(name: str, tmp_path: Path) -> None:
    """The first has an output matrix, and the second has none."""
    model = save_multimodal(name, tmp_path)
    with changed_json(tmp_path) as config:
        del config["text_config"]["tie_word_embeddings"]
        config.pop("tie_word_embeddings", None)
    ids = tokens(20)
    with torch.inference_mode():
        expected = model(input_ids=ids[None]).logits[0]
    torch.testing.assert_close(logits(tmp_path, ids), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("form", "field", "entries", "expected"),
    [
        (
            "compressed channel, token",
            "ignore",
            ["language_model.lm_head", "model.language_model.layers.1.mlp.up_proj"],
            ["lm_head", "model.layers.1.mlp.up_proj"],
        ),
        (
            "modelopt",
            "ignore",
            ["vision_tower*", "language_model.lm_head*", "language_model.model.layers.1*"],
            ["vision_tower*", "lm_head*", "model.layers.1*"],
        ),
    ],
)
def test_modules_that_are_not_quantized_have_the_names_of_the_folder(
    form: str, field: str, entries: list[str], expected: list[str], tmp_path: Path
) -> None:
    save_multimodal("Mistral3", tmp_path)
    stated = FORMATS[form].config
    with changed_json(tmp_path) as config:
        config["quantization_config"] = {**stated, field: entries}
    own = {"quantization_config": {**stated, field: expected}}
    assert read_config(tmp_path).quantization == read_quantization(own)


@pytest.mark.parametrize(
    ("pattern", "is_text", "is_head"),
    [
        ("re:.*language_model.*layers.1.mlp.*", True, False),
        (r"re:^language_model\.model\.layers\.1\.", True, False),
        (r"re:model\.language_model\.layers\.1\.", True, False),
        ("re:.*lm_head", False, True),
        ("re:language_model.lm_head", False, True),
        ("re:^(?!.*language_model).*layers", False, False),
        ("re:vision_tower.*", False, False),
        (r"re:.*layers\.1\.mlp", True, False),
    ],
)
def test_patterns_are_of_the_names_of_the_folder(
    pattern: str, is_text: bool, is_head: bool, tmp_path: Path
) -> None:
    save_multimodal("Mistral3", tmp_path)
    stated = FORMATS["compressed channel, token"].config
    with changed_json(tmp_path) as config:
        config["quantization_config"] = {**stated, "ignore": [pattern]}
    ignored = read_config(tmp_path).quantization.ignored
    assert ("model.layers.1.mlp.up_proj" in ignored) == is_text
    assert ("lm_head" in ignored) == is_head
    assert "model.layers.0.mlp.up_proj" not in ignored


def test_other_models_of_images_are_refused_by_name(tmp_path: Path) -> None:
    fields = {"architectures": ["PaliGemmaForConditionalGeneration"], "model_type": "paligemma"}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match="'PaliGemmaForConditionalGeneration' is unknown"):
        read_config(tmp_path)
