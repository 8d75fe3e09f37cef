"""A model with LoRA adapters has, for each request, the logits of the model into which the
request's adapter was merged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import float8_checkpoints
import int4_checkpoints
import pytest
import torch
from foreign_models import RUN, save_foreign
from lora_adapters import WEIGHTS, adapter, merged
from multimodal_models import save_multimodal
from paging import Sequences
from random_models import CASES, random_model, tokens
from safetensors.torch import load_file, save_file
from torch import Tensor
from two_ranks import each_of_two

from specguide.errors import CheckpointError
from specguide.layers.attention import kv_heads_of_rank
from specguide.models import Decoder, load_decoder
from specguide.parallel import ONE_RANK, Ranks

FAMILIES = (
    *(
        "llama-tied",
        "llama-biases",
        "qwen3",
        "gemma3",
        "gemma4",
        "phi3",
        "glm4-0414",
        "granite4",
        "olmo3",
    ),
    *("mixtral", "gpt-oss", "glm4-moe", "deepseek2-lite", "deepseek3"),
    *("qwen3.5-linear-end", "qwen3-next"),
)
CUT = ("llama-tied", "qwen3", "gemma3", "gemma4", "phi3", "glm4-0414")
LENGTHS = [5, 8, 3]


def save(name: str, folder: Path) -> Path:
    family, settings = CASES[name]
    random_model(family, **settings).save_pretrained(folder)
    return folder


def two_adapters(model: Path, folder: Path) -> list[Path]:
    """One for all layers, and a larger one for some. PEFT names parameters of experts also where an
    adapter changes none."""
    return [
        adapter(folder / "first", model, seed=1, target_parameters=["gate_up_proj"]),
        adapter(folder / "second", model, 2, 7, lambda name: "q" in name or "down" in name),
    ]


@torch.inference_mode()
def logits(decoder: Decoder, ranks: Ranks = ONE_RANK, ids: list[int] | None = None) -> list[Tensor]:
    """The logits of three sequences in one pass. ids: the adapter of each"""
    config = decoder.config
    sequences = Sequences(3, 8)
    num_kv_heads = kv_heads_of_rank(config.num_kv_heads, ranks)
    context = sequences.extend(LENGTHS)
    if ids is not None:
        rows = torch.tensor(ids, dtype=torch.int32).repeat_interleave(torch.tensor(LENGTHS))
        context = replace(context, adapter_ids=rows)
    cache = sequences.cache(replace(config, num_kv_heads=num_kv_heads))
    hidden, _ = decoder.forward(tokens(sum(LENGTHS)), context, cache)
    return list(decoder.logits(hidden).split(LENGTHS))


def expected_logits(model: Path, adapters: list[Path], scales: list[float]) -> list[Tensor]:
    """Those of no adapter for the first sequence, and of one adapter for each other one."""
    found = [logits(Decoder.load(model))[0]]
    for place, (of, scale) in enumerate(zip(adapters, scales, strict=True), 1):
        folder = merged(of.parent / f"merged{place}", model, of, lambda name, scale=scale: scale)
        found.append(logits(Decoder.load(folder))[place])
    return found


def assert_close(found: list[Tensor], expected: list[Tensor], atol: float = 1e-3) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=atol, rtol=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_merged_models(name: str, tmp_path: Path) -> None:
    model = save(name, tmp_path / "model")
    adapters = two_adapters(model, tmp_path)
    decoder = Decoder.load(model, adapters=adapters)
    expected = expected_logits(model, adapters, [8 / 4, 8 / 7])
    assert_close(logits(decoder, ids=[0, 1, 2]), expected)
    assert (expected[1] - logits(Decoder.load(model))[1]).abs().max() > 0.1


@pytest.mark.parametrize("name", CUT)
def test_two_ranks_give_the_logits_of_one(name: str, tmp_path: Path) -> None:
    model = save(name, tmp_path / "model")
    adapters = two_adapters(model, tmp_path)
    ids = [2, 0, 1]
    expected = logits(Decoder.load(model, adapters=adapters), ids=ids)

    def run(ranks: Ranks) -> list[Tensor]:
        return logits(Decoder.load(model, ranks=ranks, adapters=adapters), ranks, ids)

    for found in each_of_two(run):
        assert_close(found, expected)


@pytest.mark.parametrize("save_quantized", [float8_checkpoints, int4_checkpoints])
def test_adapters_of_a_quantized_model(save_quantized: Any, tmp_path: Path) -> None:
    """What they add is that which they add to the exact model."""
    form = "compressed channel, token" if save_quantized is float8_checkpoints else "awq"
    save_quantized.save(tmp_path, save_quantized.FORMATS[form])
    exact = tmp_path / "exact"
    # The last layer's output alone, so that nothing behind it rounds anything.
    last = adapter(tmp_path / "last", exact, takes=lambda name: "down_proj" in name)
    plain, adapted = [
        logits(Decoder.load(tmp_path, adapters=[last]), ids=ids) for ids in ([0] * 3, [1] * 3)
    ]
    unquantized = logits(Decoder.load(exact, adapters=[last]), ids=[1] * 3)
    for one, with_adapter, wanted in zip(plain, adapted, unquantized, strict=True):
        assert (with_adapter - wanted).norm() < 0.5 * (one - wanted).norm()


def test_scales_of_single_maps(tmp_path: Path) -> None:
    """PEFT's patterns are regular expressions of the ends of maps; the first that fits counts."""
    model = save("llama-tied", tmp_path / "model")
    of = adapter(
        tmp_path / "one",
        model,
        use_rslora=True,
        alpha_pattern={"^model.layers.1.self_attn.q_proj": 3, "q_proj": 2, "mlp.(gate|up)_.*": 5},
    )
    alphas = {"model.layers.1.self_attn.q_proj": 3}

    def scale(name: str) -> float:
        alpha = 2 if name.endswith("q_proj") else 5 if "gate" in name or "up" in name else 8
        return alphas.get(name, alpha) / 4**0.5

    expected = logits(Decoder.load(merged(tmp_path / "merged", model, of, scale)))
    assert_close(logits(Decoder.load(model, adapters=[of]), ids=[1] * 3), expected)


@pytest.mark.parametrize("name", ["GPTNeoX", "OPT"])
def test_adapters_of_a_model_that_transformers_runs(name: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    save_foreign(name, model, **RUN[name])
    of = adapter(tmp_path / "adapter", model)
    folder = merged(tmp_path / "merged", model, of, lambda name: 2.0)
    load = partial(load_decoder, model_impl="transformers")
    plain, expected = logits(load(model)), logits(load(folder))
    found = logits(load(model, adapters=[of]), ids=[1, 0, 1])
    assert_close(found, [expected[0], plain[1], expected[2]])
    change = {"base_model.model.lm_head.lora_A.weight": torch.ones(4, 64)}
    changed(of, lambda it: it.update(change))
    with pytest.raises(CheckpointError, match=r"no place for base_model.model.lm_head"):
        load(model, adapters=[of])


def test_an_adapter_of_a_model_with_encoders(tmp_path: Path) -> None:
    """What it has for the encoders is left aside as they are. Older versions of PEFT pickle it."""
    model, of = tmp_path / "model", tmp_path / "adapter"
    save_multimodal("Llava", model)
    adapter(of, model)
    assert any("vision_tower" in name for name in load_file(of / WEIGHTS))
    expected = logits(Decoder.load(merged(tmp_path / "merged", model, of, lambda name: 2.0)))
    torch.save(load_file(of / WEIGHTS), of / "adapter_model.bin")
    (of / WEIGHTS).unlink()
    assert_close(logits(Decoder.load(model, adapters=[of]), ids=[1] * 3), expected)


def changed(folder: Path, change: Callable[[dict[str, Tensor]], Any]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
FAULTS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Tensor]], Any] | None, str]] = {
    "dora": ({"use_dora": True}, None, "'use_dora' True is not supported"),
    "pissa": ({"init_lora_weights": "pissa"}, None, "'init_lora_weights' 'pissa'"),
    "bias": ({"bias": "all"}, None, "'bias' 'all'"),
    "embeddings": ({"modules_to_save": ["lm_head"]}, None, "modules_to_save"),
    "kind": ({"peft_type": "IA3"}, None, "'peft_type' 'IA3'"),
    "rank": ({"r": 0}, None, "'r' must be an integer"),
    "another rank": (
        {"r": 5, "base_model_name_or_path": "them/it"},
        None,
        "do not fit the model; .*wrong shape.*was trained for 'them/it'",
    ),
    "pattern": (
        {"rank_pattern": {"(q_proj": 4}},
        None,
        r"'rank_pattern': the pattern .* has a .\(. that is not closed",
    ),
    "truncated weights": ({"kasa_config": {"beta": 1e-4}}, None, "'kasa_config'"),
    "nothing": ({}, lambda it: it.clear(), "changes nothing in the model"),
    "no patterns": ({"alpha_pattern": [4]}, None, "must be a JSON object"),
    "missing": ({}, lambda it: it.pop(Q), "missing weights"),
    "foreign": (
        {},
        lambda it: it.update({"base_model.model.lm_head.lora_A.weight": torch.ones(4, 64)}),
        "no place for base_model.model.lm_head",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_an_adapter_is_said(fault: str, tmp_path: Path) -> None:
    fields, change, message = FAULTS[fault]
    model = save("llama-tied", tmp_path / "model")
    folder = adapter(tmp_path / "adapter", model, **fields)
    if change is not None:
        changed(folder, change)
    with pytest.raises(CheckpointError, match=message) as caught:
        Decoder.load(model, adapters=[folder])
    assert str(folder) in str(caught.value)


def test_a_folder_without_an_adapter(tmp_path: Path) -> None:
    model = save("llama-tied", tmp_path / "model")
    with pytest.raises(CheckpointError, match="no LoRA adapter: it needs adapter_config"):
        Decoder.load(model, adapters=[tmp_path])
    (tmp_path / "adapter_config.json").write_text(json.dumps({}))
    adapter(tmp_path / "named", model)
    with pytest.raises(CheckpointError, match=r"no LoRA adapter.*one of its folders: named"):
        Decoder.load(model, adapters=[tmp_path])
    with pytest.raises(CheckpointError, match=r"hf download them/it .* downloads the adapter"):
        Decoder.load(model, adapters=[Path("them/it")])
