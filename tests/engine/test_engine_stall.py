"""A grammar that stalls now and then: its request is held, and all requests come to the same
outputs."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator
from tiny_engine import K

from benchmarks.soaks.disturbances import StallingGrammar
from benchmarks.soaks.jobs import Job
from benchmarks.soaks.ledger import Ledger, counter_faults
from benchmarks.soaks.watched_engine import WatchedEngine
from specguide import Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig, GuideConfig

SCHEMA = (
    '{"type": "array", "items": {"enum": ["red", "green", 17, null]}, "minItems": 6, "maxItems": 9}'
)
NEIGHBOUR = '{"type": "string", "maxLength": 60}'
EVERY = 7


def serve(folders, sleep_s: float, lag: int):
    """The outputs and numbers of held iterations of a request whose matcher sleeps, and of its
    three neighbours; and the counters."""
    target, head = folders
    engine = WatchedEngine(
        EngineConfig(
            model=target,
            spec=SpecConfig(model=head, num_draft_tokens=K),
            max_batch_size=4,
            lag=lag,
            guide=GuideConfig(deadline_us=2000, num_threads=2),
        ),
        lambda grammar: StallingGrammar(grammar, sleep_s, EVERY),
    )
    ledger, requests = Ledger(engine.tokenizer, engine.grammar_of), []
    for number, schema in enumerate([SCHEMA, *[NEIGHBOUR] * 3]):
        job = Job(number, [65 + number] * 9, schema, Draft202012Validator({}))
        requests.append(
            engine.add(
                job.prompt_ids, SamplingParams(max_tokens=60, guide=Guide(json_schema=schema))
            )
        )
        ledger.add(requests[-1], job)
    engine.wrapped = requests[0]
    while engine.num_unfinished:
        for request in engine.step():
            ledger.take(request)
    ledger.close()
    assert ledger.faults == [] and counter_faults(engine, ledger.totals) == []
    engine.check_integrity()
    engine.close()
    return [request.output_ids for request in requests], [
        request.metrics.num_held for request in requests
    ]


@pytest.mark.parametrize("lag", [0, 1])
def test_a_stall_is_its_own_requests_affair(folders, lag):
    undisturbed, _ = serve(folders, 0.0, lag)
    outputs, held = serve(folders, 0.05, lag)
    assert outputs == undisturbed
    assert len(outputs[0]) > 2 * EVERY and held[0] >= 2
