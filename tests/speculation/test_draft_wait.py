"""Drafters that do not wait for their rows: they guess, and outputs stay the same."""

from __future__ import annotations

import pytest
from baseline_llm import baseline_llm
from misfits import Scripted, with_misfit
from random_requests import cases
from tiny_engine import K, make, told

from specguide import GuideConfig, SpecConfig

NO_WAIT = GuideConfig(draft_wait_us=0, deadline_us=60_000_000)


@pytest.mark.parametrize(
    "spec",
    [dict(), dict(guided_drafts=False), dict(baseline="two models")],
    ids=["one model", "unguided drafts", "two models"],
)
@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20)], ids=["greedy", "sampled"]
)
def test_outputs_do_not_change(folders, params, spec):
    spec = dict(spec)
    prompts, all_params = cases(5, 24, **params)
    target, head = folders
    waiting = make(folders, max_batch_size=8)
    baseline = spec.pop("baseline", None)
    not_waiting = baseline_llm(
        target,
        baseline,
        spec=SpecConfig(model=head, num_draft_tokens=K, **spec),
        max_batch_size=8,
        guide=NO_WAIT,
    )
    expected, outs = (llm.generate(prompts, all_params) for llm in (waiting, not_waiting))
    assert told(outs) == told(expected)
    assert not_waiting.stats().grammar["held"] == 0
    not_waiting._engine.check_integrity()
    waiting.close()
    not_waiting.close()


def test_late_draft_rows_are_guessed_for_and_hold_nobody(folders):
    prompts, params = cases(4, 6)
    llm = make(folders, guide=NO_WAIT)
    alone = llm.generate(prompts, params)
    late = llm.stats().grammar["late_draft_rows"]
    outs, misfit = with_misfit(llm, Scripted("sleep", 5), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert misfit.error is None and len(misfit.output_ids) == 40 and misfit.metrics.num_held == 0
    assert llm.stats().grammar["late_draft_rows"] > late
    llm.close()
