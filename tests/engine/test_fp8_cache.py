"""Keys and values cached in fp8: what the checkpoint says of them, and engines that have such a
cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tiny
import tiny_engine
import torch
from checkpoint_files import changed_json, changed_weights
from random_requests import cases
from torch import Tensor

from benchmarks.models.logits import logits_of
from specguide import LLM, CacheConfig, SpecConfig
from specguide.config import EngineConfig
from specguide.drafts.tree import DynamicTree
from specguide.engine.setup.facts import resolved
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder

FP8 = CacheConfig(kv_cache_dtype="fp8")
SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
TOKENS = [*b"a house on the hill, seen from the sea"]
NAMES = {
    "compressed-tensors": ("k_scale", "v_scale"),
    "ModelOpt": ("k_proj.k_scale", "v_proj.v_scale"),
    "older": ("k_proj.output_scale", "v_proj.output_scale"),
}


def save(
    folder: Path,
    scheme: dict[str, Any] | None = None,
    change: Callable[[dict[str, Tensor]], object] = lambda weights: None,
) -> Path:
    """The tiny model with other weights, whose checkpoint states a scheme for its cache."""
    tiny.save_target(folder)
    with changed_weights(folder) as weights:
        change(weights)
    if scheme is not None:
        with changed_json(folder) as config:
            config["quantization_config"] = scheme
    return folder


def scales(names: tuple[str, str], key: float = 0.5, value: float = 2.0) -> dict[str, Tensor]:
    return {
        f"model.layers.{layer}.self_attn.{name}": torch.tensor([scale])
        for layer in range(tiny.NUM_LAYERS)
        for name, scale in zip(names, (key, value), strict=True)
    }


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_numbers_out_of_range_need_their_scales(names: tuple[str, str], tmp_path: Path) -> None:
    """The same model with keys 4,096 times as large, and values 1,024 times as small."""

    def grow(weights: dict[str, Tensor]) -> None:
        for layer in range(tiny.NUM_LAYERS):
            prefix = f"model.layers.{layer}.self_attn."
            for part, exponent in (("q", -12), ("k", 12), ("v", -10), ("o", 10)):
                weights[f"{prefix}{part}_proj.weight"] *= 2.0**exponent

    def grow_with_scales(weights: dict[str, Tensor]) -> None:
        grow(weights)
        weights |= scales(names, 2.0**12, 2.0**-10)

    exact = Decoder.load(save(tmp_path / "exact"))
    plain = Decoder.load(save(tmp_path / "plain", change=grow))
    scaled = Decoder.load(save(tmp_path / "scaled", change=grow_with_scales))
    assert scaled.has_cache_scales() and not plain.has_cache_scales()
    expected = logits_of(exact, TOKENS, torch.float8_e4m3fn)
    torch.testing.assert_close(logits_of(scaled, TOKENS, torch.float8_e4m3fn), expected)
    unscaled = logits_of(plain, TOKENS, torch.float8_e4m3fn)
    assert (unscaled - expected).std() > expected.std()
    for decoder in (plain, scaled):
        torch.testing.assert_close(logits_of(decoder, TOKENS), logits_of(exact, TOKENS))


FAULTS: dict[str, tuple[dict[str, Tensor], str]] = {
    "negative": (scales(NAMES["ModelOpt"], -1.0), r"k_scale must be a finite number > 0, found -1"),
    "both at once": (
        {"model.layers.0.self_attn.kv_scale": torch.ones(1)},
        r"are missing for model\.layers\.1\.self_attn\.",
    ),
    "by head": (
        {"model.layers.0.self_attn.k_scale": torch.ones(2)},
        r"wrong shape: model\.layers\.0\.self_attn\.k_scale \(expected \[1\], found \[2\]\)",
    ),
    "keys alone": (
        {"model.layers.0.self_attn.k_scale": torch.ones(1)},
        r"model\.layers\.0\.self_attn\.v_scale is missing",
    ),
    "one layer": (
        {f"model.layers.0.self_attn.{name}": torch.ones(()) for name in ("k_scale", "v_scale")},
        r"are missing for model\.layers\.1\.self_attn\.",
    ),
}


@pytest.mark.parametrize(("added", "message"), FAULTS.values(), ids=FAULTS)
def test_scales_that_do_not_fit_are_named(
    added: dict[str, Tensor], message: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, change=lambda weights: weights.update(added))
    with pytest.raises(CheckpointError, match=message) as caught:
        Decoder.load(folder)
    assert str(folder) in str(caught.value)


def compressed(**fields: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "kv_cache_scheme": {**SCHEME, **fields}}


@pytest.mark.parametrize(
    "scheme",
    [
        compressed(),
        compressed(observer="minmax", group_size=None),
        {"quant_method": "fp8", "activation_scheme": "static", "kv_cache_scheme": "static"},
        {
            "quant_method": "modelopt",
            "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
        },
    ],
)
def test_auto_is_what_the_checkpoint_asks_for(scheme: dict[str, Any], tmp_path: Path) -> None:
    folder = save(tmp_path, scheme)
    found = [
        resolved(EngineConfig(folder, cache=CacheConfig(kv_cache_dtype=wanted), device="cpu"))
        for wanted in ("auto", "fp8", "fp8_e4m3", "bfloat16")
    ]
    assert [it.cache_dtype for it in found] == [*("float8_e4m3fn",) * 3, "bfloat16"]
    assert resolved(EngineConfig(device="cpu")).cache_dtype == "float32"


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ({"quant_method": "fp8", "kv_cache_scheme": "dynamic"}, "'dynamic' is not supported"),
        (compressed(num_bits=4), "'kv_cache_scheme': 'num_bits' 4 is not supported"),
        (compressed(type="int"), "'kv_cache_scheme': 'type' 'int' is not"),
        (compressed(strategy="attn_head"), "'strategy' 'attn_head' is not supported"),
        (compressed(dynamic=True), "'dynamic' True is not supported"),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"},
            "'kv_cache_quant_algo' 'NVFP4' is not supported; known: 'FP8'",
        ),
    ],
)
def test_schemes_that_cannot_be_honoured_are_named(
    scheme: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = save(tmp_path, scheme)
    with pytest.raises(CheckpointError, match=message + ".*set kv_cache_dtype to 'bfloat16'"):
        resolved(EngineConfig(folder, device="cpu"))
    wanted = CacheConfig(kv_cache_dtype="bfloat16")
    assert resolved(EngineConfig(folder, cache=wanted, device="cpu")).cache_dtype == "bfloat16"


def test_unknown_dtypes_are_refused() -> None:
    with pytest.raises(InvalidParams, match="'fp8_e5m2' is unknown; known: auto, bfloat16, fp8"):
        CacheConfig(kv_cache_dtype="fp8_e5m2")


def test_missing_scales_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, folders: tuple[Path, Path]
) -> None:
    LLM(folders[0], cache=FP8, device="cpu").close()
    assert "the checkpoint has no scales for it" in caplog.text
    caplog.clear()
    folder = save(tmp_path, compressed(), lambda weights: weights.update(scales(NAMES["ModelOpt"])))
    LLM(folder, device="cpu").close()
    assert "no scales" not in caplog.text


def test_a_smaller_dtype_makes_room_for_more(folders: tuple[Path, Path]) -> None:
    spec = SpecConfig(model=folders[1])
    page_bytes = 2 * (tiny.NUM_LAYERS + 1) * 16 * 16  # in fp8
    num_pages = {}
    for dtype in ("auto", "bfloat16", "fp8"):
        cache = CacheConfig(kv_cache_memory_bytes=400 * page_bytes, kv_cache_dtype=dtype)
        llm = LLM(folders[0], spec=spec, cache=cache, device="cpu")
        num_pages[dtype] = llm._engine.cache_size.num_pages
        passes = llm._engine._executor.step._iteration._passes
        memories = *passes._cache.memories, *passes._drafter.cache.memories
        assert len({memory.dtype for memory in memories}) == 1
        assert sum(memory.nbytes for memory in memories) == 400 * page_bytes
        llm.close()
    assert num_pages == {"auto": 100, "bfloat16": 200, "fp8": 400}


SPECS = {
    "chain": lambda head: SpecConfig(model=head),
    "tree": lambda head: SpecConfig(model=head, tree=DynamicTree(3, 3, 8)),
    "forced": lambda head: SpecConfig("suffix", num_forced_tokens=4),
}


@pytest.fixture(scope="module")
def scaled_folder(tmp_path_factory: pytest.TempPathFactory, folders: tuple[Path, Path]) -> Path:
    folder = tmp_path_factory.mktemp("scaled")
    return save(
        folder, compressed(), lambda weights: weights.update(scales(NAMES["ModelOpt"], 0.03, 0.02))
    )


@pytest.fixture(scope="module")
def plain_outputs(scaled_folder: Path) -> list[Any]:
    return generate(scaled_folder, None)


def generate(folder: Path, spec: SpecConfig | None) -> list[Any]:
    llm = LLM(folder, spec=spec, max_batch_size=8, max_prefill_tokens=32, device="cpu")
    return tiny_engine.generate(llm, *cases(3, 12, temperature=0.0))


def test_guides_hold_and_the_cache_matters(plain_outputs: list[Any], folders: Any) -> None:
    _, all_params = cases(3, 12, temperature=0.0)
    for params, output in zip(all_params, plain_outputs, strict=True):
        if params.guide is not None and output.finish_reason == "stop":
            jsonschema.validate(json.loads(output.text), params.guide.json_schema)
    unquantized = generate(folders[0], None)
    assert any(a.token_ids != b.token_ids for a, b in zip(unquantized, plain_outputs, strict=True))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_speculation_changes_no_token(
    spec: Callable[[Path], SpecConfig],
    scaled_folder: Path,
    plain_outputs: list[Any],
    folders: tuple[Path, Path],
) -> None:
    outputs = generate(scaled_folder, spec(folders[1]))
    assert [it.token_ids for it in outputs] == [it.token_ids for it in plain_outputs]
    assert any(it.metrics.acceptance_length > 1.1 for it in outputs)
