"""Checkpoints of 4-bit weights in every format: the logits of the numbers that they stand for,
through the engine with guides and drafts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import int4_checkpoints
import pytest
import torch
from checkpoint_files import changed_json, changed_weights
from int4_checkpoints import AWQ, FORMATS, GPTQ, compressed, words_of
from random_requests import cases
from safetensors.torch import load_file, save_file
from tiny_engine import told

from benchmarks.models.logits import logits_of
from specguide import LLM, SpecConfig
from specguide.errors import CheckpointError
from specguide.kernels.experts import Int4Experts
from specguide.layers.quantization import MatrixSpec
from specguide.layers.quantization.int4_online import RoundedInt4
from specguide.models import Decoder, config_of, read_config

TOKENS = [*b"a house on the hill, seen from the sea"]
LAYER = "model.layers.0."


def saved(folder: Path, name: str) -> dict[str, torch.Tensor]:
    int4_checkpoints.save(folder, FORMATS[name])
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("name", FORMATS)
def test_logits_are_those_of_the_numbers_it_stands_for(name: str, tmp_path: Path) -> None:
    saved(tmp_path, name)
    found = logits_of(Decoder.load(tmp_path), TOKENS)
    expected = logits_of(Decoder.load(tmp_path / "exact"), TOKENS)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def experts_of(decoder: Any) -> Any:
    feed_forward = decoder.layers[0].feed_forward
    return getattr(feed_forward, "experts", feed_forward)


@pytest.mark.parametrize("mixture", int4_checkpoints.MIXTURES)
@pytest.mark.parametrize("name", ["awq", "gptq", "compressed channel", "gptq ordered"])
def test_logits_of_a_mixture_are_those_of_the_numbers_it_stands_for(
    name: str, mixture: str, tmp_path: Path
) -> None:
    int4_checkpoints.save_mixture(tmp_path, name, mixture=mixture)
    decoder: Any = Decoder.load(tmp_path)
    expected = logits_of(Decoder.load(tmp_path / "exact"), TOKENS)
    torch.testing.assert_close(logits_of(decoder, TOKENS), expected, rtol=1e-4, atol=1e-4)
    assert isinstance(experts_of(decoder).down.matrices, Int4Experts) or name == "gptq ordered"
    online: Any = Decoder.load(tmp_path / "exact", quantization="int4")
    assert isinstance(experts_of(online).gate_up.matrices, Int4Experts)
    assert (logits_of(online, TOKENS) - expected).std() < 0.7 * expected.std()


@pytest.mark.parametrize("name", ["awq", "gptq ordered"])
def test_drafts_and_guides_change_no_token(name: str, tmp_path: Path) -> None:
    saved(tmp_path, name)
    prompts, all_params = cases(5, 6, temperature=0.0)
    draft = SpecConfig("draft_model", tmp_path / "exact", 3)
    plain, drafted = (
        LLM(tmp_path, spec=spec).generate(prompts, all_params) for spec in (None, draft)
    )
    assert told(drafted) == told(plain)


def test_words_are_those_of_compressed_tensors() -> None:
    """Where that library is there, it packs as the checkpoints of these tests are packed."""
    library = pytest.importorskip("compressed_tensors.compressors.pack_quantized.helpers")
    numbers = torch.randint(0, 16, (24, 64))
    signed = (numbers - 8).to(torch.int8)
    assert torch.equal(library.pack_to_int32(signed, 4), words_of(numbers))
    assert torch.equal(library.pack_to_int32(signed, 4, packed_dim=0), words_of(numbers.t()).t())


def test_the_order_of_columns_may_come_after_the_numbers(tmp_path: Path) -> None:
    weights = saved(tmp_path, "gptq ordered")
    expected = logits_of(Decoder.load(tmp_path), TOKENS)
    late = {name: weights.pop(name) for name in list(weights) if name.endswith("g_idx")}
    files = {"1.safetensors": weights, "2.safetensors": late}
    (tmp_path / "model.safetensors").unlink()
    save_shards(tmp_path, files)
    assert torch.equal(logits_of(Decoder.load(tmp_path), TOKENS), expected)


def save_shards(folder: Path, files: dict[str, dict[str, torch.Tensor]]) -> None:
    index = {}
    for file, tensors in files.items():
        save_file(tensors, folder / file)
        index |= dict.fromkeys(tensors, file)
    text = json.dumps({"weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text)


def test_a_bias_of_zeros_is_no_bias(tmp_path: Path) -> None:
    weights = saved(tmp_path, "gptq")
    bias = torch.zeros(192)
    save_file(weights | {LAYER + "mlp.up_proj.bias": bias}, tmp_path / "model.safetensors")
    Decoder.load(tmp_path)
    save_file(weights | {LAYER + "mlp.up_proj.bias": bias + 1}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"up_proj.bias is not zero, but the model has no"):
        Decoder.load(tmp_path)


@pytest.mark.parametrize(
    ("form", "name"), [("awq", "scales"), ("gptq", "scales"), ("compressed", "weight_scale")]
)
def test_scales_that_give_no_numbers_are_named(form: str, name: str, tmp_path: Path) -> None:
    int4_checkpoints.save(tmp_path, FORMATS[form])
    scale = f"model.layers.1.self_attn.o_proj.{name}"
    with changed_weights(tmp_path) as weights:
        weights[scale][0, 0] = float("nan")
    with pytest.raises(CheckpointError, match=f"{scale} must hold finite numbers"):
        Decoder.load(tmp_path)


def test_a_quantization_that_config_json_does_not_state_is_hinted_at(tmp_path: Path) -> None:
    int4_checkpoints.save(tmp_path, FORMATS["awq"])
    with changed_json(tmp_path) as config:
        (tmp_path / "quant_config.json").write_text(json.dumps(config.pop("quantization_config")))
    with pytest.raises(CheckpointError, match="does not say so: add its 'quantization_config'"):
        Decoder.load(tmp_path)


def test_a_folder_is_rounded_as_it_is_read(tmp_path: Path) -> None:
    """A group has 15 steps, and no number moves by more than half of one."""
    saved(tmp_path, "awq")
    folder = tmp_path / "exact"
    decoder: Any = Decoder.load(folder, quantization="int4")
    found = decoder.layers[0].feed_forward.down.weights.matrix.dequantized(torch.float32)
    weight = load_file(folder / "model.safetensors")[LAYER + "mlp.down_proj.weight"]
    for columns in (slice(0, 128), slice(128, 192)):
        group = weight[:, columns]
        step = (group.amax(1).clamp(min=0) - group.amin(1).clamp(max=0)) / 15
        assert ((found[:, columns] - group).abs() <= 0.501 * step[:, None]).all()
    assert LLM(folder, spec=None, quantization="int4").generate(["a"])[0].error is None


def rounded_by(form: RoundedInt4, weight: torch.Tensor) -> torch.Tensor:
    """The numbers that the rounded ones stand for."""
    spec = MatrixSpec(*weight.shape, False, ("it",), torch.device("cpu"), torch.float32)
    weights = form.create_weights(spec)
    weights.destinations()["weight"].fill(weight)
    return weights.matrix.dequantized(torch.float32)


@pytest.mark.parametrize("has_zeros", [True, False])
def test_a_group_spans_the_share_of_its_range_that_errs_least(has_zeros: bool) -> None:
    torch.manual_seed(0)
    weight = torch.randn(24, 192, dtype=torch.bfloat16)
    forms = [RoundedInt4(128, has_zeros, shares=each) for each in [(1.0,), (0.8,), (1.0, 0.8)]]
    whole, less, best = (
        torch.stack([error[:, :128].sum(1), error[:, 128:].sum(1)])
        for error in ((rounded_by(form, weight) - weight.float()).square() for form in forms)
    )
    assert torch.equal(best, torch.minimum(whole, less))
    assert (less < whole).any() and (less > whole).any()


@pytest.mark.parametrize("has_zeros", [True, False])
def test_no_number_moves_by_more_than_half_a_step(has_zeros: bool) -> None:
    """That holds over the whole range; without zeros 8 steps lie below 0 and 7 above."""
    torch.manual_seed(0)
    weight = torch.randn(24, 128, dtype=torch.bfloat16)
    low, high = -weight.amin(1).float(), weight.amax(1).float()
    step = (low + high) / 15 if has_zeros else torch.maximum(low / 8, high / 7)
    moved = (rounded_by(RoundedInt4(128, has_zeros), weight) - weight).abs()
    assert (moved <= 0.501 * step[:, None]).all()


@pytest.mark.parametrize(
    ("name", "tensor", "change", "message"),
    [
        ("awq", "mlp.up_proj.scales", lambda it: None, "missing weights: .*up_proj.scales"),
        ("awq", "mlp.up_proj.qzeros", lambda it: it[:1].clone(), r"expected \[4, 24\], found \[1,"),
        ("awq", "mlp.up_proj.qweight", lambda it: it.float(), r"cannot be converted: .* \(F32\)"),
        ("gptq", "mlp.up_proj.qzeros", lambda it: it + 1, "has zeros other than 8, though .*'sym'"),
        ("gptq", "mlp.up_proj.g_idx", lambda it: it.flip(0), "g_idx reorders columns, though"),
        ("gptq ordered", "mlp.up_proj.g_idx", lambda it: it.flip(0), "another order of columns"),
        ("gptq ordered", "mlp.up_proj.g_idx", lambda it: it * 0, "not put 32 columns into each"),
        ("compressed", "mlp.up_proj.weight_shape", lambda it: it.flip(0), r"is not \[192, 128\]"),
        ("compressed ordered", "mlp.up_proj.weight_g_idx", lambda it: None, "missing .*g_idx"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    name: str, tensor: str, change: Any, message: str, tmp_path: Path
) -> None:
    weights = saved(tmp_path, name)
    value = change(weights.pop(LAYER + tensor))
    if value is not None:
        weights[LAYER + tensor] = value.contiguous()
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        Decoder.load(tmp_path)


LLAMA = {**int4_checkpoints.SETTINGS, "architectures": ["LlamaForCausalLM"]}


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (AWQ | {"bits": 8}, "integer weights of 8 bits are not supported"),
        (AWQ | {"bits": None}, "'bits' is missing"),
        (AWQ | {"group_size": 16}, "a group size of 16 is not supported: only 32, 64, multiples"),
        (AWQ | {"group_size": None}, "'group_size' is missing"),
        (AWQ | {"version": "gemv"}, "AWQ's 'version' 'gemv' is not supported"),
        (AWQ | {"zero_point": False}, "AWQ without 'zero_point'"),
        (GPTQ | {"bits": 3}, "integer weights of 3 bits"),
        (GPTQ | {"group_size": 0}, "'group_size' must be an integer"),
        (GPTQ | {"checkpoint_format": "marlin"}, "'checkpoint_format' 'marlin' is not supported"),
        (GPTQ | {"pack_dtype": "int8"}, "'pack_dtype' 'int8' is not supported"),
        (GPTQ | {"dynamic": {"+:.*": {"bits": 8}}}, "'dynamic' '\\+:.\\*' is not supported"),
        (GPTQ | {"modules_in_block_to_quantize": ["a"]}, "must hold lists of names"),
        (compressed(num_bits=8), "'group_0': integer weights of 8 bits"),
        (compressed(group_size=48), "'group_0': a group size of 48"),
        (compressed(type="float"), "'weights' are not integers by group or by channel"),
        (compressed(strategy="tensor"), "'weights' are not integers by group or by channel"),
    ],
)
def test_what_is_not_implemented_is_named(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        config_of(LLAMA | {"quantization_config": stated})


def test_modules_that_are_not_listed_stay_as_they_are() -> None:
    stated = GPTQ | {"modules_in_block_to_quantize": [["mlp.gate_proj", "mlp.up_proj"]]}
    names = Decoder.skeleton(config_of(LLAMA | {"quantization_config": stated})).destinations()
    assert LAYER + "mlp.up_proj.qweight" in names
    assert LAYER + "self_attn.q_proj.weight" in names
    assert "lm_head.weight" in names
    stated = GPTQ | {"lm_head": True}
    names = Decoder.skeleton(config_of(LLAMA | {"quantization_config": stated})).destinations()
    assert "lm_head.qweight" in names


def test_gptq_s_routers_stay_as_they_are_though_nothing_names_them(tmp_path: Path) -> None:
    for mixture in int4_checkpoints.MIXTURES:
        int4_checkpoints.save_mixture(tmp_path, "gptq", mixture=mixture)
        with changed_json(tmp_path) as config:
            config["quantization_config"] = {**FORMATS["gptq"].config, "dynamic": {}}
        names = Decoder.skeleton(read_config(tmp_path)).destinations()
        assert sum(name.endswith(".gate.weight") for name in names) == config["num_hidden_layers"]


def test_awq_s_gate_is_the_router_alone(tmp_path: Path) -> None:
    int4_checkpoints.save_mixture(tmp_path, "awq")
    with changed_json(tmp_path) as config:
        config["quantization_config"]["modules_to_not_convert"] = ["gate"]
    names = Decoder.skeleton(read_config(tmp_path)).destinations()
    assert LAYER + "mlp.gate.weight" in names
    assert LAYER + "mlp.experts.0.gate_proj.qweight" in names


def test_features_that_cannot_be_packed_are_refused() -> None:
    config = config_of(LLAMA | {"intermediate_size": 180, "quantization_config": AWQ})
    with pytest.raises(CheckpointError, match="180 output features cannot be packed"):
        Decoder.skeleton(config).destinations()
