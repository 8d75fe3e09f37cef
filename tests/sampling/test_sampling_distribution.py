"""What is drawn has the masked, filtered distribution: chi-square against the definition on a tiny
vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from chi_square import chi_square_p
from torch import Tensor

from specguide.kernels import BitmaskRows, SamplingTensors, masked_sample
from specguide.kernels.noise import exponential_noise, splitmix64
from specguide.params import SamplingParams

LOGITS = [1.2, -0.3, 0.7, 2.0, 2.0, -1.5, 0.1, -4.0, 1.9, 0.7, -0.2, -9.0]
VOCAB_SIZE = len(LOGITS)
ODD_ONES = (0, 2, 3, 5, 8, 9, 11)
NUM_SAMPLES = 200_000
PARAMS = [
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"temperature": 1.7},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 2.0, "top_p": 0.6},
    {"temperature": 0.8, "top_p": 0.05},
    {"temperature": 1.3, "min_p": 0.2},
    {"temperature": 1.5, "min_p": 0.05, "top_k": 6, "top_p": 0.85},
    {"temperature": 1.5, "top_k": -1, "top_p": 1.0, "min_p": 0.0},
]


def distribution(
    logits: Sequence[float], allowed: Sequence[int], params: SamplingParams
) -> list[float]:
    """The distribution by the definition, token by token: mask, temperature, min-p, top-k, top-p,
    renormalise."""
    weights = {token: math.exp(logits[token] / params.temperature) for token in allowed}
    greatest = max(weights.values())
    weights = {token: w for token, w in weights.items() if w >= params.min_p * greatest}
    if params.top_k > 0:
        kth = sorted(weights.values(), reverse=True)[min(params.top_k, len(weights)) - 1]
        weights = {token: w for token, w in weights.items() if w >= kth}
    total, mass, kept = sum(weights.values()), 0.0, {}
    for token in sorted(weights, key=lambda token: (-weights[token], token)):
        if mass < params.top_p:
            kept[token] = weights[token]
        mass += weights[token] / total
    return [kept.get(token, 0.0) / sum(kept.values()) for token in range(len(logits))]


def draw(
    params: SamplingParams, allowed: Sequence[int] | None, seeds: Tensor, positions: Tensor
) -> Tensor:
    num_rows = len(seeds)
    one = SamplingTensors.from_params([params], [0], "cpu")
    one = one.select(torch.zeros(num_rows, dtype=torch.int64), one)
    tensors = SamplingTensors(seeds, one.temperature, one.top_k, one.top_p, one.min_p)
    word = sum(1 << token for token in allowed or ())
    return masked_sample(
        torch.tensor(LOGITS).expand(num_rows, -1),
        BitmaskRows(
            torch.tensor([[word]], dtype=torch.int32),
            torch.tensor([allowed is not None], dtype=torch.uint8),
            torch.zeros(num_rows, dtype=torch.int64),
        ),
        tensors,
        positions,
    )


@pytest.mark.parametrize("allowed", [None, ODD_ONES], ids=["free", "guided"])
@pytest.mark.parametrize("given", PARAMS, ids=str)
def test_samples_have_the_filtered_distribution(
    given: dict[str, float], allowed: Sequence[int] | None
) -> None:
    params = SamplingParams(**given)  # type: ignore[arg-type]
    probabilities = torch.tensor(distribution(LOGITS, allowed or range(VOCAB_SIZE), params))
    index = torch.arange(NUM_SAMPLES)
    for seeds, positions in (
        (index, torch.full_like(index, 17)),
        (torch.full_like(index, 5), index),
        (index // 400, index % 400),
    ):
        counts = torch.bincount(draw(params, allowed, seeds, positions), minlength=VOCAB_SIZE)
        assert chi_square_p(counts, probabilities) > 1e-3


def test_filters_come_in_the_documented_order() -> None:
    """A case in which min-p after top-p would keep another token."""
    params = SamplingParams(temperature=1.0, top_p=0.8, min_p=0.5)
    logits = [math.log(p) for p in (0.40, 0.25, 0.15, 0.11, 0.09)]
    assert [p > 0 for p in distribution(logits, range(5), params)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    params = SamplingParams(temperature=1.0, top_p=0.6, min_p=0.5)
    assert [p > 0 for p in distribution(logits, range(5), params)] == [
        True,
        False,
        False,
        False,
        False,
    ]
    rows = 2000
    tensors = SamplingTensors.from_params([params] * rows, range(rows), "cpu")
    tokens = masked_sample(
        torch.tensor(logits).expand(rows, -1),
        None,
        tensors,
        torch.arange(rows),
    )
    assert tokens.unique().tolist() == [0]


def test_neighbouring_draws_are_independent() -> None:
    """Pairs of draws at successive positions, seeds and both: the joint distribution is the
    product."""
    params = SamplingParams(temperature=1.0, top_k=5)
    single = torch.tensor(distribution(LOGITS, range(VOCAB_SIZE), params), dtype=torch.float64)
    index = torch.arange(NUM_SAMPLES)
    first = draw(params, None, index, index)
    for seeds, positions in ((index, index + 1), (index + 1, index), (index + 1, index + 1)):
        pairs = torch.bincount(
            first * VOCAB_SIZE + draw(params, None, seeds, positions), minlength=VOCAB_SIZE**2
        )
        assert chi_square_p(pairs, (single[:, None] * single).flatten()) > 1e-3


def test_a_row_draws_the_same_alone_and_in_a_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    num_rows, vocab_size = 64, 300
    logits = torch.randn(num_rows, vocab_size, generator=generator) * 3
    bitmask = torch.randint(-(2**31), 2**31, (num_rows, 10), generator=generator, dtype=torch.int32)
    guided = torch.randint(0, 2, (num_rows,), generator=generator, dtype=torch.uint8)
    rows = torch.randperm(num_rows, generator=generator)
    params = [
        SamplingParams(
            temperature=[0.0, 0.7, 1.5][i % 3],
            top_k=[0, 20][i % 2],
            top_p=[1.0, 0.9][i // 2 % 2],
            min_p=[0.0, 0.02][i // 4 % 2],
        )
        for i in range(num_rows)
    ]
    positions = torch.randint(0, 1000, (num_rows,), generator=generator)
    batch = masked_sample(
        logits,
        BitmaskRows(bitmask, guided, rows),
        SamplingTensors.from_params(params, range(num_rows), "cpu"),
        positions,
    )
    for i in range(num_rows):
        one = SamplingTensors.from_params([params[i]], [i], "cpu")
        alone = masked_sample(
            logits[i : i + 1],
            BitmaskRows(bitmask, guided, rows[i : i + 1]),
            one,
            positions[i : i + 1],
        )
        assert alone.tolist() == [batch[i]]


@pytest.mark.parametrize(
    ("logits", "allowed", "expected"),
    [
        ([1.0, 2.0, 3.0], (), {-1}),
        ([math.nan] * 3, None, {-1}),
        ([-math.inf] * 3, None, {-1}),
        ([math.nan, 1.0, 2.0], (0,), {-1}),
        ([math.nan, 1.0, 2.0], (0, 1), {1}),
        ([math.inf, 1.0, 2.0], (1, 2), {1, 2}),
        ([math.inf, 1.0, math.inf], None, {0, 2}),
        ([-math.inf, -math.inf, -3e38], None, {2}),
        ([3e38, -3e38, 3e38], None, {0, 2}),
    ],
)
def test_rows_with_odd_numbers(
    logits: list[float], allowed: tuple[int, ...] | None, expected: set[int]
) -> None:
    for more in ({}, {"top_k": 3, "top_p": 0.99, "min_p": 1e-6}):
        params = SamplingTensors.from_params(
            [SamplingParams(temperature=1.0, **more)] * 50, range(50), "cpu"
        )
        tokens = masked_sample(
            torch.tensor(logits).expand(50, -1),
            BitmaskRows(
                torch.tensor([[sum(1 << token for token in allowed or ())]], dtype=torch.int32),
                torch.tensor([allowed is not None], dtype=torch.uint8),
                torch.zeros(50, dtype=torch.int64),
            ),
            params,
            torch.arange(50),
        )
        assert set(tokens.tolist()) == expected


def test_tiny_temperature_is_greedy() -> None:
    tokens = draw(SamplingParams(temperature=1e-9), None, torch.arange(500), torch.arange(500))
    assert set(tokens.tolist()) == {3}
    tokens = draw(SamplingParams(temperature=2e-5), None, torch.arange(500), torch.arange(500))
    assert set(tokens.tolist()) == {3, 4}, "equals share the mass"


def test_tensors_of_params() -> None:
    greedy = SamplingTensors.from_params([SamplingParams(top_k=-1)] * 2, [3, 2**63 - 1], "cpu")
    assert greedy.seed.tolist() == [3, 2**63 - 1]
    assert [greedy.temperature, greedy.top_k, greedy.top_p, greedy.min_p] == [None] * 4
    mixed = SamplingTensors.from_params(
        [SamplingParams(temperature=0.5, top_k=4), SamplingParams(min_p=0.25)], [1, 2], "cpu"
    )
    mixed = mixed.select(torch.tensor([0, 0, 1, 1]), mixed)
    assert mixed.seed.tolist() == [1, 1, 2, 2]
    assert mixed.temperature is not None and mixed.temperature.tolist() == [0.5, 0.5, 0, 0]
    assert mixed.top_k is not None and mixed.top_k.tolist() == [4, 4, 0, 0]
    assert mixed.top_p is None
    assert mixed.min_p is not None and mixed.min_p.tolist() == [0, 0, 0.25, 0.25]


def test_splitmix64_gives_the_published_sequence() -> None:
    """First outputs of SplitMix64 for the seed 1234567, as published with the generator."""
    state = torch.tensor([1234567]) + torch.arange(1, 6) * (0x9E3779B97F4A7C15 - (1 << 64))
    assert [word % 2**64 for word in splitmix64(state).tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_noise_is_exponential() -> None:
    noise = exponential_noise(torch.arange(100), torch.arange(100) * 7, 4096)
    assert noise.shape == (100, 4096) and noise.dtype == torch.float32
    assert noise.min() > 0 and noise.max() <= 17
    edges = -torch.log(1 - torch.arange(1, 50) / 50)
    counts = torch.bincount(torch.bucketize(noise.flatten(), edges), minlength=50)
    assert chi_square_p(counts, torch.full((50,), 1 / 50)) > 1e-3
    assert noise.flatten().unique().numel() > 0.95 * noise.numel()
