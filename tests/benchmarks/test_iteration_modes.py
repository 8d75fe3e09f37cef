"""Modes of benchmarks.iteration: their names, and that tiny models can be held in each format."""

from __future__ import annotations

import pytest
import torch

from benchmarks.iterations.modes import modes, modes_named
from benchmarks.models.llama_8b import QUANTIZED, TINY_SHAPES, RandomModels
from specguide.parallel import ONE_RANK


def test_modes_are_named() -> None:
    assert [mode.name for mode in modes_named("guided,tree 60")] == ["guided", "tree 60"]
    assert modes_named("all") == list(modes().values())
    with pytest.raises(SystemExit, match=r"no mode quick, slow; there are grammarless, "):
        modes_named("quick,guided,slow")


@pytest.mark.parametrize("form", QUANTIZED)
def test_tiny_models_have_each_format(form: str) -> None:
    place = (torch.device("cpu"), torch.float32)
    models = RandomModels.of(("eagle3", "mtp"), *place, 64, TINY_SHAPES.held_in(form), ONE_RANK)
    assert models.target.config.hidden_size == TINY_SHAPES.target["hidden_size"]
