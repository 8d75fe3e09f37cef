"""apply_bitmask, masked_argmax and the greedy rows of masked_sample against loops over single
tokens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
from specguide.params import SamplingParams

INF = math.inf


def pack(allowed: list[set[int]], vocab_size: int) -> Tensor:
    """Bitmask rows, int32 [R, ceil(vocab_size / 32)], set bit by bit."""
    rows = []
    for tokens in allowed:
        words = [0] * ((vocab_size + 31) // 32)
        for token in tokens:
            words[token // 32] |= 1 << (token % 32)
        rows.append([word - (1 << 32) if word >> 31 else word for word in words])
    return torch.tensor(rows, dtype=torch.int32).view(len(allowed), -1)


@dataclass(frozen=True)
class Case:
    """Logits over a draft vocabulary (or the whole one) and the rows that they are read under."""

    logits: list[list[float]]
    allowed: list[set[int]]
    guided: list[int]
    row_ids: list[int]
    target_ids: list[int] | None
    vocab_size: int

    def arguments(self) -> tuple[Tensor, BitmaskRows]:
        width = len(self.target_ids) if self.target_ids is not None else self.vocab_size
        return (
            torch.tensor(self.logits).view(-1, width),
            BitmaskRows(
                pack(self.allowed, self.vocab_size),
                torch.tensor(
                    self.guided, dtype=torch.int64 if max(self.guided) > 1 else torch.uint8
                ),
                torch.tensor(self.row_ids, dtype=torch.int64),
            ),
        )

    def may(self, row: int, token: int) -> bool:
        return not self.guided[self.row_ids[row]] or token in self.allowed[self.row_ids[row]]

    def best(self, row: int) -> int:
        """The token that masked_argmax must give, by the definition."""
        ids = self.target_ids if self.target_ids is not None else list(range(self.vocab_size))
        allowed = [draft for draft, token in enumerate(ids) if self.may(row, token)]
        if not allowed and self.target_ids is not None:
            choices = self.allowed[self.row_ids[row]]
            return next(iter(choices)) if len(choices) == 1 else -1
        numbers = [draft for draft in allowed if self.logits[row][draft] > -INF]
        return (
            ids[max(numbers, key=lambda draft: (self.logits[row][draft], -draft))]
            if numbers
            else -1
        )


@st.composite
def cases(draw: st.DrawFn, pruned: bool) -> Case:
    vocab_size = draw(st.sampled_from([1, 5, 31, 32, 33, 64, 70, 100]))
    token = st.integers(0, vocab_size - 1)
    target_ids = draw(st.lists(token, min_size=1, unique=True, max_size=20)) if pruned else None
    width = len(target_ids) if target_ids is not None else vocab_size
    num_rows, num_logits = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    few = st.sets(token, max_size=3)
    logit = st.sampled_from([-INF, -2.0, 0.0, 0.0, 1.5, 3.0, INF, math.nan])
    return Case(
        logits=[draw(st.lists(logit, min_size=width, max_size=width)) for _ in range(num_logits)],
        allowed=[
            draw(st.one_of(few, few.map(lambda s: set(range(vocab_size)) - s)))
            for _ in range(num_rows)
        ],
        guided=[draw(st.sampled_from((0, 1, 1 << 40))) for _ in range(num_rows)],
        row_ids=[draw(st.integers(0, num_rows - 1)) for _ in range(num_logits)],
        target_ids=target_ids,
        vocab_size=vocab_size,
    )


@given(cases(pruned=False))
def test_apply_bitmask(case: Case) -> None:
    logits, *rows = case.arguments()
    expected = [
        [value if case.may(i, token) else -INF for token, value in enumerate(row)]
        for i, row in enumerate(case.logits)
    ]
    apply_bitmask(logits, *rows)
    torch.testing.assert_close(
        logits, torch.tensor(expected).view_as(logits), equal_nan=True, rtol=0, atol=0
    )


@pytest.mark.parametrize("argmax", [masked_argmax, reference.masked_argmax])
@given(case=cases(pruned=False))
def test_argmax_over_the_whole_vocabulary(argmax: Callable[..., Tensor], case: Case) -> None:
    tokens = argmax(*case.arguments())
    assert tokens.dtype == torch.int32
    assert tokens.tolist() == [case.best(row) for row in range(len(case.logits))]


@pytest.mark.parametrize("argmax", [masked_argmax, reference.masked_argmax])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@given(case=cases(pruned=True))
def test_argmax_over_a_draft_vocabulary(
    dtype: torch.dtype, argmax: Callable[..., Tensor], case: Case
) -> None:
    tokens = argmax(*case.arguments(), torch.tensor(case.target_ids, dtype=dtype))
    assert tokens.dtype == torch.int32
    assert tokens.tolist() == [case.best(row) for row in range(len(case.logits))]


@pytest.mark.parametrize("pruned", [False, True])
@given(data=st.data(), k=st.integers(1, 5))
def test_top_k(pruned: bool, data: st.DataObject, k: int) -> None:
    """The first is the argmax; the log-probabilities are those of a softmax over what is allowed,
    in order."""
    case = data.draw(cases(pruned))
    target_ids = torch.tensor(case.target_ids) if case.target_ids is not None else None
    tokens, logprobs = masked_top_k(*case.arguments(), target_ids, k)
    assert tokens.dtype == torch.int32 and logprobs.dtype == torch.float32
    ids = case.target_ids if case.target_ids is not None else list(range(case.vocab_size))
    for row, (found, likely) in enumerate(zip(tokens.tolist(), logprobs.tolist(), strict=True)):
        value = {
            token: logit
            for token, logit in zip(ids, case.logits[row], strict=True)
            if case.may(row, token) and logit > -INF
        }
        chosen = [token for token in found if token >= 0]
        assert (
            len(found) == k
            and len(set(chosen)) == len(chosen)
            and likely == sorted(likely, reverse=True)
        )
        if value:
            assert [value[token] for token in chosen] == sorted(value.values(), reverse=True)[:k]
            if max(value.values()) < INF:
                total = math.log(sum(map(math.exp, value.values())))
                assert likely[: len(chosen)] == pytest.approx(
                    [value[token] - total for token in chosen], abs=1e-5
                )
        else:
            best = case.best(row)
            assert found[0] == best and likely[0] == (-INF if best < 0 else 0.0)


@given(cases(pruned=False))
def test_greedy_rows_of_a_sampled_batch_are_the_argmax(case: Case) -> None:
    case_logits, case_rows = case.arguments()
    num_rows = len(case.logits)
    for other in ([], [SamplingParams(temperature=0.7, top_k=2, top_p=0.9, min_p=0.1)]):
        params = SamplingTensors.from_params(
            [SamplingParams()] * num_rows + other, range(num_rows + len(other)), "cpu"
        )
        logits = torch.cat([case_logits, torch.zeros(len(other), case.vocab_size)])
        ids = torch.cat([case_rows.ids, torch.zeros(len(other), dtype=torch.int64)])
        rows = case_rows._replace(ids=ids)
        tokens = masked_sample(logits, rows, params, torch.arange(num_rows + len(other)))
        assert tokens[:num_rows].tolist() == [case.best(row) for row in range(num_rows)]


@pytest.mark.parametrize("token", [0, 30, 31, 32, 63, 64, 69])
def test_only_allowed_token_is_drafted_though_the_draft_vocabulary_lacks_it(token: int) -> None:
    case = Case([[1.0, 2.0]], [{token}], [1], [0], [5, 33], 70)
    assert masked_argmax(*case.arguments(), torch.tensor(case.target_ids)).tolist() == [token]


def test_nothing_within_the_draft_vocabulary_is_a_marked_non_draft() -> None:
    case = Case([[1.0, 2.0]], [{7, 40}], [1], [0], [5, 33], 70)
    assert masked_argmax(*case.arguments(), torch.tensor(case.target_ids)).tolist() == [-1]


def test_bits_past_the_vocabulary_do_not_count() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    bitmask = torch.tensor([[~0 << 3]], dtype=torch.int32)
    guided, row = torch.ones(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    assert masked_argmax(logits, BitmaskRows(bitmask, guided, row)).tolist() == [-1]
    wide = torch.cat([torch.tensor([[0b010]], dtype=torch.int32), bitmask], dim=1)
    assert masked_argmax(logits, BitmaskRows(wide, guided, row)).tolist() == [1]
    apply_bitmask(logits, BitmaskRows(wide, guided, row))
    assert logits.tolist() == [[-INF, 2.0, -INF]]


def test_arguments_are_left_as_they_are() -> None:
    logits = torch.randn(2, 40)
    rows = BitmaskRows(
        torch.full((2, 2), 5, dtype=torch.int32), torch.ones(2).byte(), torch.arange(2)
    )
    before = logits.clone()
    params = SamplingTensors.from_params(
        [SamplingParams(temperature=1.0, top_k=3)] * 2, [1, 2], "cpu"
    )
    for some_rows in (rows, None):
        masked_argmax(logits, some_rows)
        masked_top_k(logits, some_rows, None, 3)
        masked_sample(logits, some_rows, params, torch.arange(2))
    assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 3.0]], dtype=dtype)
    guided, row = torch.ones(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    assert masked_argmax(logits, BitmaskRows(pack([{0, 2}], 4), guided, row)).tolist() == [2]
    assert masked_argmax(logits, BitmaskRows(pack([{1, 3}], 4), guided, row)).tolist() == [1]
    apply_bitmask(logits, BitmaskRows(pack([{0}], 4), guided, row))
    assert logits.tolist() == [[1.0, -INF, -INF, -INF]] and logits.dtype == dtype


@pytest.mark.parametrize("greatest", [3e7, -3e7, 1e30])
def test_log_probabilities_of_huge_logits(greatest: float) -> None:
    logits = torch.tensor([[greatest, greatest, greatest - abs(greatest) / 2]])
    logprobs = masked_top_k(logits, None, None, 2)[1]
    assert logprobs.tolist() == [pytest.approx([-math.log(2)] * 2)]


@given(cases(pruned=False), st.integers(1, 5))
def test_without_rows_all_are_free(case: Case, k: int) -> None:
    logits, rows = case.arguments()
    free = rows._replace(guided=torch.zeros_like(rows.guided))
    params = SamplingTensors.from_params(
        [SamplingParams(temperature=0.7, top_k=2)] * len(logits), range(len(logits)), "cpu"
    )
    positions = torch.arange(len(logits))
    assert torch.equal(masked_argmax(logits, None), masked_argmax(logits, free))
    found, expected = masked_top_k(logits, None, None, k), masked_top_k(logits, free, None, k)
    assert all(map(torch.equal, found, expected))
    assert torch.equal(
        masked_sample(logits, None, params, positions),
        masked_sample(logits, free, params, positions),
    )


@given(cases(pruned=True))
def test_without_rows_all_of_a_draft_vocabulary_is_free(case: Case) -> None:
    logits, rows = case.arguments()
    free, ids = rows._replace(guided=torch.zeros_like(rows.guided)), torch.tensor(case.target_ids)
    assert torch.equal(masked_argmax(logits, None, ids), masked_argmax(logits, free, ids))
    found, expected = masked_top_k(logits, None, ids, 2), masked_top_k(logits, free, ids, 2)
    assert all(map(torch.equal, found, expected))
