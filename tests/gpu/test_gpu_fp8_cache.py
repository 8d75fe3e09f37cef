"""Keys and values in fp8 on a GPU: the logits of a CPU, and engines whose iterations are
captured."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import torch
from gpu_case import FP32, check_warm_up
from random_requests import cases

from benchmarks.models.logits import logits_of
from specguide import LLM, CacheConfig, DynamicTree, SpecConfig
from specguide.kernels.float8 import FLOAT8
from specguide.models import Decoder

pytestmark = pytest.mark.gpu

FP8 = CacheConfig(kv_cache_dtype="fp8")
TOKENS = [*b"a house on the hill, seen from the sea"] * 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_those_of_a_cpu(folders: tuple[Path, Path], dtype: torch.dtype) -> None:
    """Nearer than those of a cache that is not rounded."""
    found = logits_of(Decoder.load(folders[0], "cuda", dtype), TOKENS, FLOAT8).cpu()
    on_cpu = Decoder.load(folders[0])
    expected, unrounded = logits_of(on_cpu, TOKENS, FLOAT8), logits_of(on_cpu, TOKENS)
    distance = (unrounded - expected).abs().mean()
    assert (found - expected).abs().mean() < distance * (0.2 if dtype == torch.float32 else 0.8)


def test_captured_iterations_draft_and_keep_to_their_grammars(folders: tuple[Path, Path]) -> None:
    """Sums in other orders round a key of float8 the other way now and then."""
    prompts, all_params = cases(5, 24, temperature=0.0)
    chain, tree = SpecConfig(model=folders[1]), SpecConfig(model=folders[1], tree=DynamicTree())
    outputs = []
    for spec, is_eager in ((None, True), (None, False), (chain, False), (tree, False)):
        settings = dict(spec=spec, enforce_eager=is_eager, max_batch_size=8, cache=FP8)
        llm = LLM(folders[0], **settings, **FP32)
        outputs.append(llm.generate(prompts, all_params))
        llm._engine.check_integrity()
        llm.close()
    for outs in outputs:
        assert all(out.error is None for out in outs)
        for out, params in zip(outs, all_params, strict=True):
            if params.guide is not None and out.finish_reason == "stop":
                jsonschema.validate(json.loads(out.text), params.guide.json_schema)
        same = sum(a.token_ids == b.token_ids for a, b in zip(outputs[0], outs, strict=True))
        assert same >= 0.8 * len(prompts)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_warm_up_captures_all(folders: tuple[Path, Path], dtype: str) -> None:
    spec = SpecConfig(model=folders[1])
    check_warm_up(LLM(folders[0], spec=spec, cache=FP8, dtype=dtype, max_batch_size=8))


def test_the_cache_has_room_for_twice_the_tokens() -> None:
    sizes = []
    for dtype in ("bfloat16", "fp8"):
        cache = CacheConfig(kv_cache_memory_bytes=1 << 26, kv_cache_dtype=dtype)
        llm = LLM(cache=cache, dtype="bfloat16", max_batch_size=64, max_model_len=2048)
        sizes.append(llm._engine.cache_size.num_pages)
        outputs = llm.generate(*cases(7, 12))
        llm.close()
        assert [out.error for out in outputs] == [None] * 12
    assert sizes[1] // 2 == sizes[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_checkpoint_is_read_straight_to_the_device(
    folders: tuple[Path, Path], dtype: torch.dtype
) -> None:
    """Whether its numbers stay as they are or are converted."""
    there, here = (Decoder.load(folders[0], device, dtype) for device in ("cuda", "cpu"))
    expected = here.destinations()
    for name, destination in there.destinations().items():
        found, wanted = destination.tensor.cpu(), expected[name].tensor
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
