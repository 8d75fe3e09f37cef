"""float8 checkpoints in every format: the logits of the numbers that they stand for, through the
engine with guides and drafts, and what is refused."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import float8_checkpoints
import jsonschema
import pytest
import torch
from checkpoint_files import changed_json, changed_weights, weights_in
from float8_checkpoints import FORMATS
from random_requests import cases
from tiny_engine import told

from benchmarks.models.logits import logits_of
from specguide import LLM, SpecConfig
from specguide.errors import CheckpointError, InvalidParams
from specguide.layers.quantization import (
    CacheScheme,
    MatrixSpec,
    Quantization,
    read_quantization,
)
from specguide.layers.quantization.float8 import Float8, Stored
from specguide.layers.quantization.float8_blocks import Float8Blocks
from specguide.models import Decoder, config_of, read_config

TOKENS = [*b"a house on the hill, seen from the sea"]


@pytest.fixture(scope="module", params=FORMATS)
def named_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("float8")
    float8_checkpoints.save(folder, FORMATS[request.param])
    return request.param, folder


def test_logits_are_those_of_the_numbers_it_stands_for(named_folder: tuple[str, Path]) -> None:
    """They agree but where a number lies between two of float8, and rounding it the other way
    changes what follows a little; far closer than with the model whose inputs are not rounded."""
    name, folder = named_folder
    found = logits_of(Decoder.load(folder), TOKENS)
    with torch.inference_mode():
        expected = float8_checkpoints.reference(folder, FORMATS[name])(torch.tensor([TOKENS]))
    unrounded = logits_of(Decoder.load(folder / "exact"), TOKENS)
    error = (found - expected.logits[0]).abs().mean()
    assert error < 0.1 * (unrounded - expected.logits[0]).abs().mean()


@pytest.mark.parametrize(
    "named_folder",
    ["compressed tensor, static", "compressed channel, token", "fp8 block"],
    indirect=True,
)
def test_drafts_change_no_token_and_guides_hold(named_folder: tuple[str, Path]) -> None:
    _, folder = named_folder
    prompts, all_params = cases(5, 6, temperature=0.0)
    draft = SpecConfig("draft_model", folder / "exact", 3, quantization="fp8")
    plain, drafted = (
        LLM(folder, spec=spec).generate(prompts, all_params) for spec in (None, draft)
    )
    assert told(drafted) == told(plain)
    pairs = zip(plain, all_params, strict=True)
    ended = [(out, it.guide) for out, it in pairs if it.guide and out.finish_reason == "stop"]
    assert ended
    for out, guide in ended:
        jsonschema.validate(json.loads(out.text), guide.json_schema)


def test_a_folder_is_rounded_as_it_is_read(tmp_path: Path) -> None:
    """The numbers are those of a checkpoint with a scale for each row, but for the layer that is
    not converted there."""
    form = FORMATS["compressed channel, token"]
    float8_checkpoints.save(tmp_path, form)
    plain = weights_in(tmp_path / "exact")
    online = Decoder.load(tmp_path / "exact", quantization="fp8")
    stored = Decoder.load(tmp_path)
    for name, destination in stored.destinations().items():
        if destination.tensor.dtype == torch.float8_e4m3fn:
            own = online.destinations()[name].tensor.float()
            assert torch.equal(own, destination.tensor.float()), name
    assert online.lm_head.weights.destinations()["weight"].tensor.dtype == torch.float32
    assert plain["lm_head.weight"].shape == online.lm_head.weights.weight.shape
    assert LLM(tmp_path / "exact", spec=None, quantization="fp8").generate(["a"])[0].error is None


@pytest.mark.parametrize("quantization", ["fp8", "int4"])
@pytest.mark.parametrize("method", ["eagle3", "mtp"])
def test_a_draft_head_is_rounded_as_it_is_read(method: str, quantization: str) -> None:
    prompts, all_params = cases(5, 6, temperature=0.0)
    plain, drafted, rounded = (
        LLM(spec=spec).generate(prompts, all_params)
        for spec in (None, SpecConfig(method), SpecConfig(method, quantization=quantization))
    )
    assert [out.token_ids for out in rounded] == [out.token_ids for out in plain]
    accepted, exactly = (
        sum(sum(out.metrics.accepted_histogram[1:]) for out in outputs)
        for outputs in (rounded, drafted)
    )
    assert accepted > 0.8 * exactly > 0


def test_without_a_model_there_is_nothing_to_round() -> None:
    with pytest.raises(
        InvalidParams, match=r"'ngram' uses no draft head or model: leave spec\.quantization out"
    ):
        SpecConfig("ngram", quantization="fp8")
    with pytest.raises(InvalidParams, match="'fp7' is unknown; known: "):
        LLM(spec=SpecConfig("eagle3", quantization="fp7"))


@pytest.mark.parametrize(
    ("quantization", "message"),
    [
        ("awq", "'awq' is unknown; known: .* leave it out for a checkpoint that is"),
        ("fp8", "is quantized al"),
    ],
)
def test_quantizations_that_do_not_fit_are_refused(
    tmp_path: Path, quantization: str, message: str
) -> None:
    float8_checkpoints.save(tmp_path, FORMATS["fp8 dynamic"])
    with pytest.raises(InvalidParams, match=message):
        read_config(tmp_path, quantization)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    float8_checkpoints.save(tmp_path, FORMATS["compressed channel, token"])
    with changed_weights(tmp_path) as weights:
        scale, layer = weights.pop("model.layers.0.mlp.up_proj.weight_scale"), "model.layers.1."
        weights[layer + "self_attn.o_proj.weight_scale"] = scale
        weights[layer + "mlp.up_proj.weight"] = weights[layer + "mlp.up_proj.weight"].float()
    with pytest.raises(CheckpointError) as caught:
        Decoder.load(tmp_path)
    message = str(caught.value)
    assert "missing weights: model.layers.0.mlp.up_proj.weight_scale;" in message
    assert "o_proj.weight_scale (expected [128, 1], found [256, 1])" in message
    assert "type that cannot be converted: model.layers.1.mlp.up_proj.weight (F32)" in message


@pytest.mark.parametrize(
    ("form", "name", "value", "message"),
    [
        ("compressed tensor, static", "weight_scale", "nan", "must hold finite numbers"),
        ("compressed tensor, static", "input_scale", "inf", "must hold finite numbers"),
        ("compressed tensor, static", "input_scale", "0", "must be more than 0, found 0.0"),
        ("compressed channel, token", "weight_scale", "nan", "must hold finite numbers"),
        ("fp8 block", "weight_scale_inv", "nan", "must hold finite numbers"),
    ],
)
def test_scales_that_give_no_numbers_are_named(
    form: str, name: str, value: str, message: str, tmp_path: Path
) -> None:
    float8_checkpoints.save(tmp_path, FORMATS[form])
    scale = f"model.layers.1.self_attn.o_proj.{name}"
    with changed_weights(tmp_path) as weights:
        weights[scale].view(-1)[-1] = float(value)
    with pytest.raises(CheckpointError, match=f"{scale} {message}"):
        Decoder.load(tmp_path)


def test_scales_of_a_cache_in_fp8_are_read(tmp_path: Path) -> None:
    """ModelOpt states them in a file of its own."""
    float8_checkpoints.save(tmp_path, FORMATS["modelopt's file"])
    with changed_json(tmp_path, "hf_quant_config.json") as stated:
        stated["quantization"]["kv_cache_quant_algo"] = "FP8"
    with changed_weights(tmp_path) as weights:
        for layer, name in product((0, 1), ("k_proj.k_scale", "v_proj.v_scale")):
            weights[f"model.layers.{layer}.self_attn.{name}"] = torch.tensor(1.0)
    decoder = Decoder.load(tmp_path)
    assert decoder.has_cache_scales() and decoder.config.cache_scheme == CacheScheme()


GROUP = FORMATS["compressed channel, token"].config["config_groups"]["group_0"]
COMPRESSED = FORMATS["compressed channel, token"].config
FP8 = {"quant_method": "fp8"}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}
LLAMA = {**float8_checkpoints.SETTINGS, "architectures": ["LlamaForCausalLM"]}


def weights_with(**fields: Any) -> dict[str, Any]:
    return with_group(weights={**GROUP["weights"], **fields})


def with_group(**fields: Any) -> dict[str, Any]:
    return {**COMPRESSED, "config_groups": {"group_0": {**GROUP, **fields}}}


NVFP4 = with_group(
    format="nvfp4-pack-quantized",
    weights={"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
    input_activations={"num_bits": 4, "type": "float", "dynamic": "local", "group_size": 16},
)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({**COMPRESSED, "format": "nvfp4-pack-quantized"}, "'nvfp4-pack-quantized' of 'group_0'"),
        (NVFP4, "format 'nvfp4-pack-quantized' of 'group_0' is not supported"),
        ({**COMPRESSED, "config_groups": {}}, "has no 'config_groups'"),
        ({**COMPRESSED, "config_groups": {"a": 1}}, "'a' must be a JSON object"),
        ({**COMPRESSED, "sparsity_config": {"format": "sparse"}}, "'sparsity_config' .* not supp"),
        ({**COMPRESSED, "rotation": "hadamard"}, "'rotation' 'hadamard' is unknown"),
        ({**COMPRESSED, "quantization_status": "calibration"}, "'quantization_status' 'calibra"),
        ({**COMPRESSED, "ignore": "lm_head"}, "'ignore' must be a list of names"),
        ({**COMPRESSED, "ignore": ["re:("]}, "pattern 're:\\(' has a"),
        (weights_with(num_bits=4), "'weights' are not symmetric"),
        (weights_with(strategy="group"), "weights with the strategy 'group'"),
        (weights_with(hue=1), "'weights': 'hue' is unknown"),
        (with_group(input_activations=None), "without fp8 'input_activations'"),
        (with_group(output_activations={}), "'output_activations' must be null"),
        (
            with_group(
                weights={**GROUP["weights"], "strategy": "block", "block_structure": "64x2"}
            ),
            "blocks of \\(64, 2\\)",
        ),
        ({**FP8, "fmt": "e5m2"}, "'fmt' 'e5m2' is not supported"),
        ({**FP8, "scale_fmt": "ue4m3"}, "'scale_fmt' 'ue4m3' is not supported"),
        ({**FP8, "expert_dtype": "fp4"}, "'expert_dtype' 'fp4' is not supported"),
        ({**FP8, "activation_scheme": "lazy"}, "'activation_scheme' 'lazy' is unknown"),
        ({**FP8, "weight_block_size": [64, 64]}, "'weight_block_size' \\[64, 64\\] with dynamic"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "'quant_algo' 'NVFP4' of ModelOpt"),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["*" * 9]},
            "more than 4 '\\*'",
        ),
    ],
)
def test_what_is_not_implemented_is_named(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        config_of(LLAMA | {"quantization_config": stated})


def test_zeros_that_are_stored_like_any_weights() -> None:
    """Earlier versions of llm-compressor say how many there are."""
    sparsity = {
        "format": "dense",
        "global_sparsity": 0.14,
        "registry_requires_subclass": False,
        "sparsity_structure": "unstructured",
    }
    found = read_quantization({"quantization_config": {**COMPRESSED, "sparsity_config": sparsity}})
    assert found == read_quantization({"quantization_config": COMPRESSED})


def test_the_first_name_of_a_compression(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    found = []
    for name in ("compression_config", "quantization_config"):
        path.write_text(json.dumps(LLAMA | {name: COMPRESSED | {"quantization_status": "frozen"}}))
        found.append(read_config(tmp_path))
    assert found[0] == found[1]
    path.write_text(json.dumps(LLAMA | {"compression_config": "fp8"}))
    with pytest.raises(CheckpointError, match="must be a JSON object, found 'fp8'"):
        read_config(tmp_path)


def test_maps_of_one_matrix_are_held_alike() -> None:
    ignore = ["model.layers.0.self_attn.k_proj"]
    config = config_of(LLAMA | {"quantization_config": {**COMPRESSED, "ignore": ignore}})
    message = (
        "'model.layers.0.self_attn.q_proj' and 'model.layers.0.self_attn.k_proj' are loaded as"
    )
    with pytest.raises(CheckpointError, match=message):
        Decoder.skeleton(config)


def test_maps_of_one_matrix_keep_their_scales(tmp_path: Path) -> None:
    """Their input has the largest of their static scales."""
    float8_checkpoints.save(tmp_path, FORMATS["compressed tensor, static"])
    with changed_weights(tmp_path) as weights:
        for number, name in enumerate(("q_proj", "k_proj", "v_proj"), start=1):
            stem = f"model.layers.0.self_attn.{name}."
            weights[stem + "weight_scale"] = torch.tensor([float(number)])
            weights[stem + "input_scale"] = torch.tensor([0.25 * (number % 3 + 1)])
    qkv: Any = Decoder.load(tmp_path).layers[0].attention.qkv.weights
    assert qkv.scale.tolist() == [1.0] * 128 + [2.0] * 128 + [3.0] * 128
    assert qkv.input.scaling.static_scale.tolist() == [0.75]


def test_names_count_for_more_than_the_class_linear() -> None:
    groups = {
        "all": GROUP,
        "some": {**GROUP, "weights": None, "targets": ["re:.*self_attn.*", "lm_head"]},
    }
    stated = {**COMPRESSED, "ignore": [], "config_groups": groups}
    decoder = Decoder.skeleton(config_of(LLAMA | {"quantization_config": stated}))
    kinds = {name: it.tensor.dtype for name, it in decoder.destinations().items()}
    assert kinds["model.layers.0.self_attn.q_proj.weight"] == torch.float32
    assert kinds["lm_head.weight"] == torch.float32
    assert kinds["model.layers.0.mlp.up_proj.weight"] == torch.float8_e4m3fn


def test_blocks_that_would_be_cut_are_refused() -> None:
    stated = FORMATS["fp8 block"].config
    for settings, message in (
        ({"intermediate_size": 192}, "features 192 to 384 of a matrix are a projection"),
        ({"hidden_size": 192}, "'model.layers.0.mlp.gate_proj' has 192 input features"),
    ):
        config = config_of(LLAMA | settings | {"quantization_config": stated})
        with pytest.raises(CheckpointError, match=message):
            Decoder.skeleton(config)


def test_a_config_is_json(tmp_path: Path) -> None:
    float8_checkpoints.save(tmp_path, FORMATS["modelopt's file"])
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": "FP8"}))
    with pytest.raises(CheckpointError, match=r"hf_quant_config.json: 'quantization' must be a J"):
        read_config(tmp_path)


@pytest.mark.parametrize("quantization", [Float8(Stored.CHANNEL), Float8Blocks("weight_scale_inv")])
def test_a_gpu_without_float8_is_refused(
    quantization: Quantization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    spec = MatrixSpec(128, 128, False, ("lm_head",), torch.device("cuda", 0), torch.bfloat16)
    with pytest.raises(CheckpointError, match=r"need a GPU of compute capability 8\.9"):
        quantization.create_weights(spec)
