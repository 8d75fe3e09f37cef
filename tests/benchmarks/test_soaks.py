"""What a soak must notice: outputs that leave their grammar, requests that are lost, memory that
grows."""

from __future__ import annotations

import pytest
from byte_vocabulary import EOS, backend
from jsonschema import Draft202012Validator

from benchmarks.soaks.jobs import Job
from benchmarks.soaks.ledger import Ledger
from benchmarks.soaks.memory import MB, Memory, memory_faults
from benchmarks.soaks.watched_engine import Iteration, distribution, slowest
from specguide import Guide, GuideConfig, SamplingParams
from specguide.request import Request, RequestSpec

SCHEMA = '{"type": "integer", "minimum": 0}'


@pytest.fixture(scope="module")
def grammar():
    return backend("llguidance", True).compile(Guide(json_schema=SCHEMA), GuideConfig())


class Bytes:
    """Stands for a tokenizer."""

    def decode(self, token_ids) -> str:
        return bytes(token for token in token_ids if token < 256).decode()


def ledger_of(
    grammar, text: bytes, *, end: bool = True, reason: str = "stop", schema: dict | None = None
) -> Ledger:
    """A ledger with one request under way, whose text is `text`."""
    request = Request(RequestSpec(0, [1], SamplingParams()), finish_reason=reason)
    request.output_ids = [*text, *[EOS][:end]]
    ledger = Ledger(Bytes(), lambda params: grammar)
    ledger.add(request, Job(0, [1], SCHEMA, Draft202012Validator(schema or {"type": "integer"})))
    ledger.take(request)
    return ledger


@pytest.mark.parametrize(
    ("case", "fault"),
    [
        (dict(text=b"12"), None),
        (dict(text=b"12", end=False, reason="length"), None),
        (dict(text=b"1x"), "refuses token 1"),
        (dict(text=b"12", end=False), "goes on"),
        (dict(text=b"12", reason="error"), "ended by error"),
        (dict(text=b"12", schema={"maximum": 9}), "does not match"),
    ],
)
def test_what_an_output_is_worth(grammar, case, fault):
    ledger = ledger_of(grammar, **case)
    ledger.close()
    assert ledger.faults == [] if fault is None else fault in ledger.faults[0]
    assert ledger.totals["requests"] == 1


def test_a_request_comes_back_once(grammar):
    ledger, request = ledger_of(grammar, b"1"), Request(RequestSpec(7, [1], SamplingParams()))
    ledger.take(request)
    ledger.add(request, Job(0, [1], SCHEMA, Draft202012Validator({})))
    ledger.close()
    assert ledger.faults == ["request 7 was returned twice", "request 7 was lost"]


def test_memory_that_grows():
    first = Memory(allocated=5 * MB, reserved=9 * MB, device=90 * MB, rss=100 * MB)
    assert memory_faults(first, first) == []
    assert memory_faults(first, Memory(20 * MB, 9 * MB, 90 * MB, 200 * MB)) == [
        "allocated memory grew by 15.0 MB",
        "rss memory grew by 100.0 MB",
    ]


def test_figures_of_iterations():
    iterations = [
        Iteration(ms=float(number), prefills=number % 2, held=0) for number in range(2001)
    ]
    assert distribution(iterations) == {
        "num": 2001,
        "median": 1000,
        "p99": 1980,
        "p99.9": 1998,
        "max": 2000,
    }
    assert [row["index"] for row in slowest(iterations)] == [2000, 1999, 1998]
    assert distribution([]) == {"num": 0} and slowest([]) == []
