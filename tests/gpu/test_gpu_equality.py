"""The shipped model gives the same tokens from captured graphs, from eager iterations and on a
CPU."""

from __future__ import annotations

import time
from itertools import product

import pytest
import torch

from benchmarks.equality import PATIENT, differences, greedy, logit_gap, num_same, prompts_of
from specguide import LLM, SpecConfig
from specguide.kernels import linear
from training.data import chat
from training.data.groups import SAMPLERS, samples_of

pytestmark = pytest.mark.gpu

MAX_TOKENS = 96
MOST_APART = 2**-4
"""Logits that bfloat16 may take for equal: its step between 8 and 16. A graph has more rows than an
eager pass, so its sums are of another order."""
SCHEMAS = (
    '{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","maxLength":12},"maxItems":4}},'
    '"required":["tags"],"additionalProperties":false}',
    '{"type":"array","items":{"type":"integer","minimum":0,"maximum":9999},"minItems":2,"maxItems":6}',
    '{"anyOf":[{"type":"object","properties":{"place":{"type":"string"},"open":{"type":"boolean"}},'
    '"required":["place","open"],"additionalProperties":false},{"type":"null"}]}',
    '{"enum":["a bridge","a letter","a meeting",null,17]}',
)
TEXT = (
    "The bridge in Riga was opened on 4 May 1932. It is 320 metres long; "
    "Ann Lee met Tom Berg there at 9:30."
)


def tasks() -> list[chat.Task]:
    """Fresh ones of every group that the model was trained for, and other schemas over one text."""
    fresh = [task for group in SAMPLERS for task in samples_of(group, 99, 3)]
    return fresh + [chat.Task(TEXT, answer="", schema=schema) for schema in SCHEMAS]


def generate(**options) -> list[tuple[int, ...]]:
    """The outputs of all requests, admitted together, so that every pass has the same shape each
    time."""
    some = tasks()
    llm = LLM(max_batch_size=len(some), guide=PATIENT, mixed_iterations=False, **options)
    prompts = prompts_of(some)
    llm.generate(prompts, greedy(some, 1))  # compiles the grammars, for which requests would wait
    guide = llm._engine._executor.grammar
    while not all(guide.is_idle(slot) for slot in range(len(some))):
        time.sleep(0.01)
    outputs = llm.generate(prompts, greedy(some, MAX_TOKENS))
    counters = llm.stats().grammar
    llm.close()
    assert [output.error for output in outputs] == [None] * len(some)
    assert counters["held"] == counters["late_draft_rows"] == 0
    return [output.token_ids for output in outputs]


def differing(
    name: str,
    ones: list[tuple[int, ...]],
    others: list[tuple[int, ...]],
    most_apart: float = 0.0,
) -> list[str]:
    """The outputs that differ in a token where the logits of the two tokens, in float64, are
    further apart."""
    prompts = prompts_of(tasks())
    found = []
    for it in differences(ones, others):
        gap = logit_gap([*prompts[it.request], *ones[it.request][: it.position]], it.tokens)
        if not most_apart or gap is None or gap > most_apart:
            what = f"request {it.request} differs at token {it.position}, {it.tokens[0]} against"
            found.append(f"{name}: {what} {it.tokens[1]}; their logits are {gap} apart")
    return found


@pytest.fixture(scope="module")
def on_cpu() -> list[tuple[int, ...]]:
    """Plain decoding in float32 by the plain-torch twins."""
    return generate(device="cpu", spec=None)


def test_float32_products_are_of_float32():
    """TensorFloat-32 would keep 10 bits."""
    assert not torch.backends.cuda.matmul.allow_tf32
    x, weight = torch.randn(24, 256), torch.randn(576, 256)
    exact = x.double() @ weight.double().T
    error = (linear(x.cuda(), weight.cuda()).cpu().double() - exact).abs().max()
    assert error < 2e-5 * exact.abs().max()


def test_the_twin_speculates_without_loss(on_cpu):
    assert differing("speculative on a CPU", on_cpu, generate(device="cpu")) == []


@pytest.mark.parametrize(
    ("spec", "lag", "enforce_eager"), list(product(["speculative", "plain"], [0, 1], [False, True]))
)
def test_float32_gives_the_tokens_of_the_cpu(on_cpu, spec, lag, enforce_eager):
    found = generate(
        device="cuda",
        dtype="float32",
        spec=SpecConfig() if spec == "speculative" else None,
        lag=lag,
        enforce_eager=enforce_eager,
    )
    assert differing("on the GPU", on_cpu, found) == []


@pytest.mark.parametrize("spec", ["speculative", "plain"])
def test_bfloat16_gives_the_same_captured_and_eager(on_cpu, spec, record_property):
    options = dict(
        device="cuda", dtype="bfloat16", spec=SpecConfig() if spec == "speculative" else None
    )
    captured, eager = generate(**options), generate(enforce_eager=True, **options)
    assert differing("eager", captured, eager, most_apart=MOST_APART) == []
    tokens_before = sum(num_same(one, other) for one, other in zip(on_cpu, captured, strict=True))
    record_property(
        "share of requests that differ from float32",
        len(differences(on_cpu, captured)) / len(on_cpu),
    )
    record_property(
        "share of tokens before the first difference", tokens_before / sum(map(len, on_cpu))
    )
