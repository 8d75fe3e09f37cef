"""What requests take of the engine's drafts, in captured iterations: no token changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from proposals import METHODS, make
from random_requests import cases
from speculation_choices import check_choice, fitting
from tiny_engine import generate, told

from specguide import SpecConfig

pytestmark = pytest.mark.gpu

FP32 = dict(device="cuda", dtype="float32", max_batch_size=8)


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize("method", ["eagle3", "eagle3 and grammar", "suffix and grammar"])
def test_choices_mixed_in_one_batch_change_no_token(folders, monkeypatch, method, params):
    monkeypatch.setitem(METHODS, "eagle3", dict(model=folders[1], num_draft_tokens=3))
    spec = SpecConfig(**METHODS[method])
    prompts, all_params = cases(1, 40, **params)
    expected = told(generate(make(folders, None, **FP32), prompts, all_params))
    chosen = list(zip(all_params, cycle(fitting(spec.layout))))
    for options in (dict(), dict(enforce_eager=True), dict(lag=0)):
        outs = generate(
            make(folders, method, **FP32, **options),
            prompts,
            [replace(params, speculation=choice, return_drafts=True) for params, choice in chosen],
        )
        assert told(outs) == expected
        for out, (_, choice) in zip(outs, chosen, strict=True):
            check_choice(out, choice, spec.layout)
