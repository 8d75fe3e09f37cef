"""Chunks of prompts beside captured decode iterations, on a GPU."""

from __future__ import annotations

import pytest
from staggered import SPECS, asked, engine_of, run, told

from specguide import SamplingParams

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("mode", SPECS)
def test_captured_outputs_are_those_of_prompts_on_their_own(mode):
    outputs = []
    for options in ({}, {"mixed_iterations": False}, {"enforce_eager": True}):
        engine, watch = engine_of(
            SPECS[mode], dtype="float32", max_batch_size=8, max_step_ms=1000.0, **options
        )
        if not options:
            engine.warm_up()
        outputs.append(list(map(told, run(engine, asked(16)))))
        assert bool(watch.chunks) == options.get("mixed_iterations", True)
        engine.close()
    assert outputs[0] == outputs[1] == outputs[2]


def test_more_short_prompts_than_chunks():
    engine, watch = engine_of(SPECS["eagle3"], dtype="float32", max_batch_size=64)
    engine.warm_up()
    engine.add(engine.prompt_ids("Once upon a time"), SamplingParams(max_tokens=60))
    for _ in range(3):
        engine.step()
    many = [engine.add([100 + at, 7, 9 + at], SamplingParams(max_tokens=5)) for at in range(40)]
    while engine.num_unfinished:
        engine.step()
    engine.check_integrity()
    assert watch.num_starts == 40 and all(len(one.output_ids) <= 5 for one in many)
    assert not any(one.error for one in many)
    engine.close()
