"""Adjusted logits against a naive twin that goes token by token, and the parameters that are
refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import save_target

from specguide.batch import Adjustment
from specguide.errors import InvalidParams
from specguide.kernels import BitmaskRows
from specguide.params import SamplingParams
from specguide.sampling import SlotAdjustments, adjust_logits, adjustment_of, chain_paths
from specguide.tokenizer import Tokenizer

V, NUM_SLOTS, K = 40, 4, 3
TOKENS = st.integers(0, 7)  # few, so that they repeat
INF = float("inf")


@st.composite
def adjustments(draw) -> Adjustment:
    sequences = draw(st.lists(st.lists(TOKENS, min_size=2, max_size=4).map(tuple), max_size=6))
    allowed = draw(st.none() | st.sets(st.integers(0, V - 1), min_size=1))
    return Adjustment(
        allowed_ids=None if allowed is None else tuple(allowed),
        forbidden_ids=tuple(draw(st.sets(TOKENS, max_size=3))),
        forbidden_sequences=tuple(sequences),
        min_tokens=draw(st.integers(0, 6)),
        bias=draw(
            st.dictionaries(st.integers(0, V - 1), st.floats(-100, 100, width=32), max_size=5)
        ),
        end_ids=tuple(draw(st.sets(st.integers(0, V - 1), max_size=3))),
        repetition=draw(st.sampled_from([1.0, 1.3, 0.5])),
        frequency=draw(st.sampled_from([0.0, 0.7, -2.0])),
        presence=draw(st.sampled_from([0.0, -0.3, 1.5])),
    )


def adjusted_naively(
    logits: list[float],
    adjustment: Adjustment,
    prompt: list[int],
    output: list[int],
    grammar: set[int] | None,
) -> list[float]:
    """The plain step's logits behind `output`, one token at a time and in the numbers of a
    float32."""

    def float32(number: float) -> float:
        return float(torch.tensor(number, dtype=torch.float32))

    logits = list(logits)
    for token in range(V):
        if adjustment.allowed_ids is not None and token not in adjustment.allowed_ids:
            logits[token] = -INF
        if token in adjustment.forbidden_ids or (grammar is not None and token not in grammar):
            logits[token] = -INF
        logits[token] = float32(logits[token] + float32(adjustment.bias.get(token, 0.0)))
    for *before, last in adjustment.forbidden_sequences:
        if len(output) >= len(before) and output[len(output) - len(before) :] == before:
            logits[last] = -INF
    goes_on = any(logits[token] > -INF for token in range(V) if token not in adjustment.end_ids)
    if len(output) < adjustment.min_tokens and (goes_on or grammar is None):
        for token in adjustment.end_ids:
            logits[token] = -INF
    for token in range(V):
        if token in prompt or token in output:
            penalty = float32(adjustment.repetition)
            logits[token] = float32(
                logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
            )
        logits[token] = float32(
            logits[token] - float32(output.count(token) * float32(adjustment.frequency))
        )
        logits[token] = float32(
            logits[token] - float32((token in output) * float32(adjustment.presence))
        )
    return logits


def bitmask_rows(grammars: list[set[int] | None], slots: torch.Tensor) -> BitmaskRows:
    """The rows of all nodes of some slots, node by node. grammars: the allowed tokens of each"""
    allowed = torch.zeros((K + 1) * NUM_SLOTS, 2 * 32, dtype=torch.int64)
    guided = torch.zeros((K + 1) * NUM_SLOTS, dtype=torch.uint8)
    for slot, grammar in zip(slots.tolist(), grammars, strict=True):
        if grammar is not None:
            rows = torch.arange(K + 1) * NUM_SLOTS + slot
            guided[rows] = 1
            for token in grammar:
                allowed[rows, token] = 1
    words = (allowed.view(-1, 2, 32) << torch.arange(32)).sum(-1)
    bitmask = torch.where(words >= 2**31, words - 2**32, words).int()
    row_ids = (torch.arange(K + 1) * NUM_SLOTS + slots[:, None]).flatten()
    return BitmaskRows(bitmask, guided, row_ids)


def check_node(found, before, request, output):
    """Compare the logits of a node with those of the naive adjustment. output: up to the node"""
    adjustment, prompt, grammar = request
    if adjustment is None:
        is_open = torch.tensor([grammar is None or token in grammar for token in range(V)])
        assert torch.equal(found, before.masked_fill(~is_open, -INF))
    elif -1 not in output:
        naive = adjusted_naively(before.tolist(), adjustment, prompt, output, grammar)
        assert found.tolist() == naive


@given(
    requests=st.lists(
        st.tuples(
            st.none() | adjustments(),
            st.lists(TOKENS, min_size=1, max_size=5),
            st.none() | st.sets(st.integers(0, V - 1)),
        ),
        min_size=1,
        max_size=NUM_SLOTS,
    ),
    windows=st.lists(
        st.lists(
            st.tuples(
                st.lists(TOKENS | st.just(-1), min_size=K, max_size=K),
                st.integers(-1, K),
                st.lists(TOKENS, min_size=K + 1, max_size=K + 1),
            ),
            min_size=NUM_SLOTS,
            max_size=NUM_SLOTS,
        ),
        max_size=4,
    ),
    seed=st.integers(0, 1000),
)
def test_each_node_as_if_its_path_had_been_output(requests, windows, seed):
    """Windows of drafts, some accepted and some slots held; what is said beyond the accepted drafts
    leaves no trace."""
    generator = torch.Generator().manual_seed(seed)
    state = SlotAdjustments.neutral(NUM_SLOTS, V, torch.device("cpu"))
    slots = torch.randperm(NUM_SLOTS, generator=generator)[: len(requests)]
    outputs: list[list[int]] = [[] for _ in requests]
    for slot, (adjustment, prompt, _) in zip(slots.tolist(), requests, strict=True):
        if adjustment is not None:
            state.write(slot, adjustment, prompt, ())
    rows = bitmask_rows([grammar for _, _, grammar in requests], slots)
    for window in windows:
        logits = torch.randn(len(requests) * (K + 1), V, generator=generator) * 4
        drafts = torch.tensor([drafts for drafts, _, _ in window[: len(requests)]]).int()
        start = torch.tensor(
            [
                len(prompt) + len(output) - 1
                for (_, prompt, _), output in zip(requests, outputs, strict=True)
            ]
        )
        found = adjust_logits(logits, slots, chain_paths(drafts), start, state, rows)
        found, before = found.view(-1, K + 1, V), logits.view(-1, K + 1, V)
        for row, request in enumerate(requests):
            for node in range(K + 1):
                output = outputs[row] + drafts[row, :node].tolist()
                check_node(found[row, node], before[row, node], request, output)
        num_accepted = torch.tensor([accepted for _, accepted, _ in window[: len(requests)]]).int()
        said = torch.tensor([tokens for _, _, tokens in window[: len(requests)]]).int()
        state.take(slots, said, num_accepted)
        for row, tokens in enumerate(said.tolist()):
            outputs[row] += tokens[: int(num_accepted[row]) + 1]


def test_a_request_that_comes_back_brings_its_output():
    adjustment = Adjustment(None, (), ((1, 2, 3),), {4: 1.0}, 3, (5,), 1.2, 0.5, 0.5)
    ran, came_back = (SlotAdjustments.neutral(2, V, torch.device("cpu")) for _ in range(2))
    ran.write(1, adjustment, [7, 8], ())
    ran.take(torch.tensor([1]), torch.tensor([[1, 2, 2, 9]]).int(), torch.tensor([2]).int())
    came_back.write(1, adjustment, [7, 8], [1, 2, 2])
    neutral = SlotAdjustments.neutral(2, V, torch.device("cpu"))
    for name, tensor in vars(ran).items():
        assert torch.equal(tensor, getattr(came_back, name)), name
    came_back.clear(1)
    for name, tensor in vars(came_back).items():
        assert torch.equal(tensor, getattr(neutral, name)), name


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return Tokenizer.from_folder(save_target(tmp_path_factory.mktemp("tiny")))


def test_bad_words_are_spelled_with_and_without_a_space(tokenizer):
    class Words:
        eos_token_ids = (0,)

        def encode(self, text, add_special_tokens):
            return {
                "new": [1],
                " new": [2],
                "newer": [1, 3],
                " newer": [4, 5, 3],
                "er": [3, 6],
                " er": [9, 3, 6],
                "\n": [8],
            }[text]

    found = adjustment_of(SamplingParams(bad_words=["new", " newer", "er", "\n"]), Words(), V)
    assert found.forbidden_ids == (1, 2, 8) and found.forbidden_sequences == (
        (1, 3),
        (4, 5, 3),
        (3, 6),
    )
    bytes_ = adjustment_of(SamplingParams(bad_words=["ab", "c"]), tokenizer, 272)
    assert len(bytes_.forbidden_ids) == 1 and [
        len(found) for found in bytes_.forbidden_sequences
    ] == [2]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (dict(logit_bias={272: 1}), "logit_bias has token 272"),
        (dict(allowed_token_ids=[3, 300]), "token 300"),
        (dict(bad_words=["x" * 33]), "33 tokens"),
        (dict(bad_words=[f"{n:03}" for n in range(129)]), "at most 128"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(tokenizer, params, words):
    with pytest.raises(InvalidParams, match=words) as caught:
        adjustment_of(SamplingParams(**params), tokenizer, 272)
    assert caught.value.param == next(iter(params))


def test_nothing_to_adjust(tokenizer):
    assert adjustment_of(SamplingParams(temperature=1.0, logprobs=3), tokenizer, 272) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("presence_penalty", (-2.1, 2.1, math.nan, None, True)),
        ("frequency_penalty", (-2.1, 2.1, "1")),
        ("repetition_penalty", (0, -1, math.inf)),
        ("min_tokens", (-1, 1.5, 257)),
        ("logprobs", (-1, 21, True, 1.0)),
        (
            "logit_bias",
            ({1: 101}, {1: -100.5}, {-1: 1}, {"a": 1}, {1: None}, [1], {n: 1 for n in range(513)}),
        ),
        ("allowed_token_ids", ((), (-1,), 3, "ab")),
        ("bad_words", ("ab", ("a", ""), (3,))),
    ],
)
def test_wrong_values_are_named(name: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidParams, match=name) as caught:
            SamplingParams(**{name: value})
        assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("presence_penalty", -2, -2),
        ("frequency_penalty", 2.0, 2.0),
        ("repetition_penalty", 0.01, 0.01),
        ("min_tokens", 256, 256),
        ("logprobs", 0, 0),
        ("logprobs", 20, 20),
        ("logit_bias", {"7": -100}, {7: -100}),
        ("logit_bias", {n: 1 for n in range(512)}, {n: 1 for n in range(512)}),
        ("allowed_token_ids", [3], (3,)),
        ("bad_words", ["a b"], ("a b",)),
    ],
)
def test_bounds_belong_to_the_ranges(name: str, given: Any, kept: Any) -> None:
    assert getattr(SamplingParams(**{name: given}), name) == kept
