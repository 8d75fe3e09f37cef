"""Families beside Llama in the engine: the tokens of transformers, guided or free, drafted or
not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import mtp_heads
import pytest
import tiny
import torch
from engine_families import FAMILIES
from random_requests import cases
from tiny_engine import generate, told
from transformers import PreTrainedModel

from specguide import LLM, RequestOutput, SamplingParams, SpecConfig

REQUESTS = cases(3, 12, temperature=0.0)
"""Two thirds are guided by a schema."""


@dataclass(frozen=True)
class Checkpoint:
    """A random model, and its folder."""

    model: PreTrainedModel
    folder: Path

    @cached_property
    def plain(self) -> list[RequestOutput]:
        """The outputs of REQUESTS without drafts."""
        llm = LLM(self.folder, spec=None, max_batch_size=8)
        try:
            return llm.generate(*REQUESTS)
        finally:
            llm.close()


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    config_class, model_class, own = FAMILIES[request.param]
    torch.manual_seed(0)
    model = model_class(config_class(**{**tiny.SETTINGS, **own})).eval()
    folder = tmp_path_factory.mktemp("family")
    model.save_pretrained(folder)
    tiny.save_tokenizer(folder)
    return Checkpoint(model, folder)


@pytest.fixture(scope="module")
def heads(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a random head of the families' width, by method."""
    mtp = mtp_heads.save_tiny_head(tmp_path_factory.mktemp("mtp"))
    return {"eagle3": folders[1], "mtp": mtp}


def test_tokens_are_those_of_transformers(family: Checkpoint) -> None:
    prompts = [list(b"ab" * times) for times in (1, 7, 20)]
    params = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)
    outputs = LLM(family.folder, spec="suffix", device="cpu").generate(prompts, params)
    for prompt, output in zip(prompts, outputs, strict=True):
        ids = torch.tensor([[*prompt, *output.token_ids]])
        with torch.inference_mode():
            expected = family.model(ids).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert list(output.token_ids) == expected.tolist()


@pytest.mark.parametrize("method", ["suffix", "eagle3", "mtp"])
def test_speculation_changes_no_token(
    family: Checkpoint, heads: dict[str, Path], method: str
) -> None:
    llm = LLM(family.folder, spec=SpecConfig(method, heads.get(method), 3), max_batch_size=8)
    outputs = generate(llm, *REQUESTS)
    assert told(outputs) == told(family.plain)
    assert any(out.metrics.acceptance_length > 1.1 for out in outputs)
