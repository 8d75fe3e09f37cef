"""Triton bitmask, argmax and sampling kernels against their plain-torch twins on a CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from gpu_case import IS_INTERPRETED, captured, to_device
from small_cases import crossed, small
from torch import Tensor

from specguide.kernels import (
    BitmaskRows,
    SamplingTensors,
    apply_bitmask,
    masked_argmax,
    masked_sample,
    masked_top_k,
    reference,
)
from specguide.kernels.noise import exponential_noise
from specguide.params import SamplingParams

pytestmark = pytest.mark.gpu

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FEW, MOST, ALL = 0.002, 0.9, 1.0
SOME_ROWS = 6 if IS_INTERPRETED else 23
# Few rows are split, two and four of many share a program: on a large GPU, and interpreted.
ROW_COUNTS = (2, 6, 9, 17) if IS_INTERPRETED else (3, 130, 301, 641)


@dataclass(frozen=True)
class Rows:
    """Logits and the bitmask rows that they are read under, in an order that is not theirs."""

    logits: Tensor
    bitmask: Tensor
    guided: Tensor
    row_ids: Tensor


def make_rows(
    num_rows: int,
    vocab_size: int,
    *,
    width: int | None = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Rows:
    """Row densities cycle through few, most, all and none allowed; every fifth is free and its
    words are void.

    width: columns of the logits, where they are over a draft vocabulary
    """
    random = torch.Generator().manual_seed(seed)
    num_words = (vocab_size + 31) // 32
    density = torch.tensor([FEW, MOST, ALL, 0.0, MOST]).repeat(-(-num_rows // 5))[:num_rows]
    bits = torch.zeros(num_rows, num_words * 32, dtype=torch.bool)
    bits[:, :vocab_size] = torch.rand(num_rows, vocab_size, generator=random) < density[:, None]
    shifted = bits.view(num_rows, num_words, 32).to(torch.int64) << torch.arange(32)
    words = shifted.sum(2)
    bitmask = torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
    guided = (torch.arange(num_rows) % 5 != 4).to(torch.uint8)
    bitmask[guided == 0] = 0x5EED
    logits = (torch.randn(num_rows, width or vocab_size, generator=random) * 3).to(dtype)
    row_ids = torch.randperm(num_rows, generator=random).repeat_interleave(2)[::2]
    return Rows(logits, bitmask, guided, row_ids)


def call(kernel, rows: Rows, *more: object):  # type: ignore[no-untyped-def]
    return kernel(rows.logits, BitmaskRows(rows.bitmask, rows.guided, rows.row_ids), *more)


def check_argmax(rows: Rows, target_ids: Tensor | None = None) -> None:
    tokens = call(masked_argmax, to_device(rows), to_device(target_ids))
    assert tokens.dtype == torch.int32
    assert tokens.tolist() == call(reference.masked_argmax, rows, target_ids).tolist()


def draft_vocabulary(vocab_size: int, width: int, seed: int) -> Tensor:
    order = torch.randperm(vocab_size, generator=torch.Generator().manual_seed(seed))
    return order[:width].sort().values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab_size", [1, 31, small(33), 100, 2048, small(5000), 32000])
def test_argmax_over_the_whole_vocabulary(dtype: torch.dtype, vocab_size: int) -> None:
    for num_rows in (0, 1, 5, SOME_ROWS):
        check_argmax(make_rows(num_rows, vocab_size, dtype=dtype, seed=num_rows))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("width", "pruned"),
    crossed(
        [1, 7, 2049, 7000],
        [False, True],
        where=lambda width, pruned: (width, pruned) in ((7, False), (7000, True)),
    ),
)
def test_top_k(width: int, dtype: torch.dtype, pruned: bool) -> None:
    for num_rows, k in ((0, 3), (1, 10), (SOME_ROWS, 4)):
        rows = make_rows(
            num_rows, 9000 if pruned else width, width=width, dtype=dtype, seed=num_rows
        )
        ids = draft_vocabulary(9000, width, num_rows) if pruned else None
        tokens, logprobs = call(masked_top_k, to_device(rows), to_device(ids), k)
        expected_tokens, expected = call(reference.masked_top_k, rows, ids, k)
        torch.testing.assert_close(logprobs.cpu(), expected, atol=1e-4, rtol=1e-5)
        is_alone = torch.ones_like(expected, dtype=torch.bool)  # equals may come in any order
        is_alone[:, 1:] &= expected[:, 1:] != expected[:, :-1]
        is_alone[:, :-1] &= is_alone[:, 1:].clone()
        is_alone[:, -1] = False  # perhaps equal to the one that is left out
        assert torch.equal(tokens.cpu()[is_alone], expected_tokens[is_alone])


@pytest.mark.parametrize("greatest", [3e7, -3e7, 1e30])
def test_log_probabilities_of_huge_logits(greatest: float) -> None:
    logits = to_device(torch.full((3, 5000), greatest - abs(greatest) / 2))
    logits[:, ::1250] = greatest
    logprobs = masked_top_k(logits, None, None, 4)[1]
    torch.testing.assert_close(logprobs.cpu(), torch.full((3, 4), 0.25).log())


@pytest.mark.parametrize("num_rows", ROW_COUNTS)
@pytest.mark.parametrize(
    ("width", "dtype"),
    crossed(
        [1, 40, 1500, 7000],
        [torch.int32, torch.int64],
        where=lambda width, dtype: (width, dtype) == (1500, torch.int32),
    ),
)
def test_argmax_over_a_draft_vocabulary(width: int, dtype: torch.dtype, num_rows: int) -> None:
    ids = draft_vocabulary(9000, width, num_rows).to(dtype)
    check_argmax(make_rows(num_rows, 9000, width=width, dtype=torch.bfloat16), ids)
    check_argmax(make_rows(num_rows, 9000, width=width), ids.flip(0))


def special_rows(vocab_size: int) -> Rows:
    """Ties everywhere, and logits that are no numbers."""
    rows = make_rows(40, vocab_size, seed=7)
    choice = torch.tensor([-math.inf, -2.0, 0.0, 0.0, 1.5, 3.0, math.inf, math.nan])
    index = torch.randint(0, 8, rows.logits.shape, generator=torch.Generator().manual_seed(3))
    rows.logits.copy_(choice[index])
    rows.logits[20:30].masked_fill_(rows.logits[20:30] == math.inf, 1.0)
    rows.logits[30:34] = math.nan
    rows.logits[34:36] = -math.inf
    return rows


def test_argmax_of_ties_and_of_what_is_no_number() -> None:
    check_argmax(special_rows(4500))
    ids = draft_vocabulary(6000, 4500, 0)
    rows = make_rows(40, 6000, width=4500)
    rows.logits.copy_(special_rows(4500).logits)
    check_argmax(rows, ids)


@pytest.mark.parametrize("num_rows", [1, ROW_COUNTS[-1]])
@pytest.mark.parametrize("token", [0, 31, 32, 63, small(1055), 40_000])
def test_only_allowed_token_is_drafted_though_the_draft_vocabulary_lacks_it(
    token: int, num_rows: int
) -> None:
    ids = torch.tensor([5, 100, 2000])
    rows = make_rows(num_rows, 40_001, width=3)
    rows.bitmask[:] = 0
    rows.bitmask[:, token // 32] = -(1 << 31) if token % 32 == 31 else 1 << token % 32
    check_argmax(rows, ids)
    rows.bitmask[:, 7] |= 2
    check_argmax(rows, ids)


@pytest.mark.small
def test_columns_of_row_ids_and_bits_past_the_vocabulary() -> None:
    rows = make_rows(12, 70)
    rows.bitmask[:, 2] |= ~0 << 6
    strided = Rows(
        rows.logits, rows.bitmask, rows.guided != 0, rows.row_ids.repeat_interleave(3)[::3]
    )
    assert strided.row_ids.stride(0) == 3
    check_argmax(strided)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("num_rows", "vocab_size"),
    crossed(
        [23, 40, 260],
        [1, 33, 100, 5000],
        where=lambda num_rows, vocab_size: (num_rows, vocab_size) in ((23, 33), (40, 5000)),
    ),
)
def test_apply_bitmask(num_rows: int, vocab_size: int, dtype: torch.dtype) -> None:
    rows = make_rows(num_rows, vocab_size, dtype=dtype)
    rows.logits[:, ::7] = math.nan
    live = to_device(rows)
    call(apply_bitmask, live)
    call(reference.apply_bitmask, rows)
    torch.testing.assert_close(live.logits.cpu(), rows.logits, rtol=0, atol=0, equal_nan=True)


GREEDY, PLAIN = SamplingParams(), SamplingParams(temperature=1.0)
MIXES = {
    "plain": [PLAIN, SamplingParams(temperature=0.3), GREEDY, SamplingParams(temperature=2.0)],
    "min_p": [
        SamplingParams(temperature=1.0, min_p=0.1),
        PLAIN,
        GREEDY,
        SamplingParams(temperature=3.0, min_p=1.0),
    ],
    "top_k": [SamplingParams(temperature=1.0, top_k=k) for k in (1, 2, 20, 1000)] + [PLAIN, GREEDY],
    "top_p": [SamplingParams(temperature=2.0, top_p=p) for p in (0.01, 0.3, 0.9, 0.999)]
    + [PLAIN, GREEDY],
    "all": [
        SamplingParams(temperature=1.5, top_k=k, top_p=p, min_p=m)
        for k, p, m in (
            (20, 0.8, 0.0),
            (1, 0.5, 0.0),
            (300, 0.95, 0.01),
            (0, 0.9, 0.2),
            (5, 1.0, 0.0),
            (100_000, 0.5, 0.0),
        )
    ]
    + [GREEDY, PLAIN],
}


def sampling(params: list[SamplingParams], num_rows: int) -> SamplingTensors:
    cycle = [params[row % len(params)] for row in range(num_rows)]
    return SamplingTensors.from_params(
        cycle, [(row * 0x9E3779B97F4A7C15) >> 3 & (1 << 63) - 1 for row in range(num_rows)], "cpu"
    )


def check_sample(rows: Rows, params: SamplingTensors, first_position: int = 5) -> None:
    """Equal tokens, but for a clock in ten thousand that the last bit of an exponential decides."""
    positions = torch.arange(len(rows.logits)) + first_position
    tokens = call(masked_sample, to_device(rows), to_device(params), to_device(positions)).cpu()
    expected = call(reference.masked_sample, rows, params, positions)
    assert tokens.dtype == torch.int32
    differing = int((tokens != expected).sum())
    assert differing <= len(rows.logits) // 500, (tokens, expected)


@pytest.mark.parametrize(
    ("vocab_size", "mix"),
    crossed(
        [1, 33, 700, 5000],
        MIXES,
        where=lambda vocab_size, mix: vocab_size in (33, 5000) and mix == "all",
    ),
)
def test_sample(mix: str, vocab_size: int) -> None:
    row_counts = (8, 2, 1) if IS_INTERPRETED else (640 if vocab_size == 700 else 48,) * 3
    for dtype, num_rows in zip(DTYPES, row_counts, strict=True):
        check_sample(
            make_rows(num_rows, vocab_size, dtype=dtype, seed=vocab_size),
            sampling(MIXES[mix], num_rows),
        )


@pytest.mark.parametrize("mix", MIXES)
def test_sample_of_a_large_vocabulary(mix: str) -> None:
    check_sample(make_rows(24, 128_256), sampling(MIXES[mix], 24))


@pytest.mark.parametrize("mix", MIXES)
def test_sample_of_ties_and_of_what_is_no_number(mix: str) -> None:
    rows = special_rows(4500)
    for first_position in (0, 100):
        check_sample(rows, sampling(MIXES[mix], 40), first_position)


def test_noise_is_the_twins() -> None:
    """With equal logits the least noise wins, so winners tell the noise apart to the last bits."""
    rows = make_rows(200, 3000)
    rows.logits.zero_()
    rows.guided.zero_()
    params = sampling([PLAIN], 200)
    positions = torch.arange(200) - 3
    tokens = call(masked_sample, to_device(rows), to_device(params), to_device(positions))
    assert tokens.tolist() == exponential_noise(params.seed, positions, 3000).argmin(1).tolist()


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
@pytest.mark.parametrize("num_rows", [6, 640])
def test_captured_kernels_read_their_rows_on_the_device(num_rows: int) -> None:
    ids = draft_vocabulary(5000, 2000, 1)
    whole, draft = make_rows(num_rows, 5000), make_rows(num_rows, 5000, width=2000)
    params, positions = sampling(MIXES["all"], num_rows), torch.arange(num_rows)
    live, live_draft, live_ids = to_device(whole), to_device(draft), to_device(ids)
    live_params, live_positions, masked = (
        to_device(params),
        to_device(positions),
        to_device(whole.logits),
    )

    def run() -> tuple[Tensor, Tensor, Tensor]:
        masked.copy_(live.logits)
        apply_bitmask(masked, BitmaskRows(live.bitmask, live.guided, live.row_ids))
        return (
            call(masked_argmax, live),
            call(masked_argmax, live_draft, live_ids),
            call(masked_sample, live, live_params, live_positions),
        )

    graph, outputs = captured(run)
    for seed in (11, 12):
        whole, draft = (
            make_rows(num_rows, 5000, seed=seed),
            make_rows(num_rows, 5000, width=2000, seed=seed),
        )
        for sink, source in ((live, whole), (live_draft, draft)):
            for name in ("logits", "bitmask", "guided", "row_ids"):
                getattr(sink, name).copy_(getattr(source, name))
        positions = positions + 17
        live_positions.copy_(positions)
        for output in outputs:
            output.fill_(-7)
        graph.replay()
        assert outputs[0].tolist() == call(reference.masked_argmax, whole).tolist()
        assert outputs[1].tolist() == call(reference.masked_argmax, draft, ids).tolist()
        sampled = call(reference.masked_sample, whole, params, positions)
        assert int((outputs[2].cpu() != sampled).sum()) <= num_rows // 500
        call(reference.apply_bitmask, whole)
        assert torch.equal(masked.cpu(), whole.logits)


@pytest.mark.parametrize("num_rows", [3, 40, 640])
@pytest.mark.parametrize("dtype", DTYPES)
def test_without_rows_all_are_free(num_rows: int, dtype: torch.dtype) -> None:
    logits = make_rows(num_rows, 5000, dtype=dtype, seed=num_rows).logits
    draft, ids = logits[:, :2000].contiguous(), draft_vocabulary(5000, 2000, 1)
    params, positions = sampling(MIXES["all"], num_rows), torch.arange(num_rows)
    live, live_draft, live_ids = to_device(logits), to_device(draft), to_device(ids)
    assert masked_argmax(live, None).tolist() == reference.masked_argmax(logits, None).tolist()
    expected = reference.masked_argmax(draft, None, ids)
    assert masked_argmax(live_draft, None, live_ids).tolist() == expected.tolist()
    for some_ids, live_some in ((None, None), (ids, live_ids)):
        tokens, logprobs = masked_top_k(live_draft, None, live_some, 8)
        expected_tokens, expected = reference.masked_top_k(draft, None, some_ids, 8)
        torch.testing.assert_close(logprobs.cpu(), expected, rtol=1e-4, atol=1e-4)
        leads = expected[:, 0] > expected[:, 1]  # of equals either may be the first
        assert torch.equal(tokens.cpu()[leads, 0], expected_tokens[leads, 0])
    drawn = masked_sample(live, None, to_device(params), to_device(positions)).cpu()
    expected = reference.masked_sample(logits, None, params, positions)
    assert int((drawn != expected).sum()) <= num_rows // 500
