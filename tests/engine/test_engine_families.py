"""Families beside Llama in the engine: the tokens of transformers, guided or free, drafted or
not."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from engine_families import FAMILIES
from random_requests import cases
from transformers import PreTrainedModel

from specguide import LLM, SamplingParams, SpecConfig


@pytest.fixture(scope="module", params=FAMILIES)
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PreTrainedModel, Path]:
    """A random model, and its folder."""
    config_class, model_class, own = FAMILIES[request.param]
    torch.manual_seed(0)
    model = model_class(config_class(**{**tiny.SETTINGS, **own})).eval()
    folder = tmp_path_factory.mktemp("family")
    model.save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return model, folder


def test_tokens_are_those_of_transformers(family: tuple[PreTrainedModel, Path]) -> None:
    model, folder = family
    prompts = [list(b"ab" * times) for times in (1, 7, 20)]
    params = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)
    outputs = LLM(folder, spec="suffix", device="cpu").generate(prompts, params)
    for prompt, output in zip(prompts, outputs, strict=True):
        ids = torch.tensor([[*prompt, *output.token_ids]])
        with torch.inference_mode():
            expected = model(ids).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert list(output.token_ids) == expected.tolist()


@pytest.mark.parametrize("method", ["suffix", "eagle3"])
def test_speculation_changes_no_token(
    family: tuple[PreTrainedModel, Path], folders: tuple[Path, Path], method: str
) -> None:
    """Two thirds of the requests are guided by a schema."""
    _, folder = family
    spec = SpecConfig(method, folders[1] if method == "eagle3" else None, 3)
    prompts, all_params = cases(3, 12, temperature=0.0)
    plain = LLM(folder, spec=None, max_batch_size=8).generate(prompts, all_params)
    llm = LLM(folder, spec=spec, max_batch_size=8)
    outputs = llm.generate(prompts, all_params)
    llm._engine.check_integrity()
    llm.close()
    assert [(out.token_ids, out.finish_reason, out.error) for out in outputs] == [
        (out.token_ids, out.finish_reason, None) for out in plain
    ]
    assert any(out.metrics.acceptance_length > 1.1 for out in outputs)
