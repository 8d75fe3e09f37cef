"""Models that transformers' modules run, in the engine: the same tokens guided and free, drafted or
not."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from foreign_models import save_foreign
from random_requests import cases
from tiny_engine import generate, told
from transformers import PreTrainedModel

from specguide import LLM, SamplingParams, SpecConfig

WINDOWS = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 9,
}


@pytest.fixture(scope="module", params=["Cohere2", "StableLm"])
def foreign(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PreTrainedModel, Path]:
    """A random model of bytes, and its folder."""
    folder = tmp_path_factory.mktemp("foreign")
    own = WINDOWS if request.param == "Cohere2" else {}
    model = save_foreign(request.param, folder, **{**tiny.SETTINGS, **own})
    tiny.save_tokenizer(folder)
    return model, folder


def engine(folder: Path, spec: SpecConfig | None) -> LLM:
    return LLM(folder, spec=spec, max_batch_size=8, model_impl="transformers", device="cpu")


def test_tokens_are_those_of_transformers(foreign: tuple[PreTrainedModel, Path]) -> None:
    model, folder = foreign
    prompts = [list(b"ab" * times) for times in (1, 7, 20)]
    params = SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True)
    llm = engine(folder, None)
    for outputs in (llm.generate(prompts, params), llm.generate(prompts, params)):
        for prompt, output in zip(prompts, outputs, strict=True):
            ids = torch.tensor([[*prompt, *output.token_ids]])
            with torch.inference_mode():
                expected = model(ids).logits[0, len(prompt) - 1 : -1].argmax(-1)
            assert list(output.token_ids) == expected.tolist()


@pytest.mark.parametrize("method", ["ngram", "eagle3"])
def test_speculation_changes_no_token(
    foreign: tuple[PreTrainedModel, Path], folders: tuple[Path, Path], method: str
) -> None:
    """Two thirds of the requests are guided by a schema."""
    _, folder = foreign
    spec = SpecConfig(method, folders[1] if method == "eagle3" else None, 3)
    prompts, all_params = cases(3, 8, temperature=0.0)
    plain = engine(folder, None).generate(prompts, all_params)
    llm = engine(folder, spec)
    outputs = generate(llm, prompts, all_params)
    assert told(outputs) == told(plain)
