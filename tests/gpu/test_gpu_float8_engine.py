"""Models in float8 on a GPU: the logits of a CPU, and engines whose iterations are captured."""

from __future__ import annotations

from pathlib import Path

import float8_checkpoints
import pytest
import torch
from float8_checkpoints import FORMATS
from gpu_case import check_warm_up
from random_requests import cases

from benchmarks.models.logits import logits_of
from specguide import LLM, SpecConfig
from specguide.models import Decoder

pytestmark = pytest.mark.gpu

NAMES = ["compressed tensor, static", "compressed channel, token", "fp8 block"]
TOKENS = [*b"a house on the hill, seen from the sea"]


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("float8")
    float8_checkpoints.save(folder, FORMATS[request.param])
    return folder


@pytest.mark.parametrize("num_tokens", [5, 38, 380])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_those_of_a_cpu(folder: Path, dtype: torch.dtype, num_tokens: int) -> None:
    """As near to them as the model whose inputs are not rounded is, and as near to that one as they
    are; with rows enough for either kind of product. No nearer: a sum that differs in its last
    digit rounds a number of float8 the other way, by a thousand times as much, and each layer does
    so again."""
    tokens = (TOKENS * 10)[:num_tokens]
    found = logits_of(Decoder.load(folder, "cuda", dtype), tokens).cpu()
    expected, unrounded = (logits_of(Decoder.load(at), tokens) for at in (folder, folder / "exact"))
    distance = (unrounded - expected).abs().mean()
    assert (found - expected).abs().mean() < distance * (0.6 if dtype == torch.float32 else 1.1)
    assert (found - unrounded).abs().mean() < 1.2 * distance


def test_captured_iterations_draft_and_keep_to_their_grammars(folder: Path) -> None:
    """Sums in other orders round a number of float8 the other way now and then."""
    prompts, all_params = cases(5, 24, temperature=0.0)
    draft = SpecConfig("draft_model", folder / "exact", 3)
    outputs = []
    for spec, is_eager in ((None, True), (None, False), (draft, False)):
        llm = LLM(folder, spec=spec, dtype="float32", max_batch_size=8, enforce_eager=is_eager)
        outputs.append(llm.generate(prompts, all_params))
        llm.close()
    assert all(out.error is None for outs in outputs for out in outs)
    for outs in outputs[1:]:
        same = sum(a.token_ids == b.token_ids for a, b in zip(outputs[0], outs, strict=True))
        assert same >= 0.8 * len(prompts)


def test_a_warm_up_captures_all(folder: Path) -> None:
    spec = SpecConfig("draft_model", folder / "exact", 3)
    check_warm_up(LLM(folder, spec=spec, max_batch_size=8))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_shipped_model_is_rounded_as_it_is_read(dtype: str) -> None:
    """Its MLP has 576 inner features, no multiple of 128."""
    llm = LLM(quantization="fp8", dtype=dtype, max_batch_size=8)
    outputs = llm.generate(*cases(7, 12))
    llm.close()
    assert [out.error for out in outputs] == [None] * 12
