"""How a launch of attention is cut into programs, on a GPU of 132 multiprocessors."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from specguide.kernels.attention import ForwardContext, attention_backend, triton_backend

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_backend, "num_multiprocessors", lambda _: 132)


def launch(num_seqs: int, num_tokens: int) -> tuple[int, int, int]:
    """Rows, splits and warps of a launch of 32 query heads over 8 key heads, in half precision."""
    ints = dict(dtype=torch.int32)
    context = ForwardContext(
        position_ids=torch.zeros(num_seqs * num_tokens, dtype=torch.int64),
        slot_mapping=torch.zeros(num_seqs * num_tokens, dtype=torch.int64),
        block_table=torch.zeros(num_seqs, 128, **ints),
        query_start_loc=torch.arange(num_seqs + 1, **ints) * num_tokens,
        seq_lens=torch.full((num_seqs,), num_tokens, **ints),
        max_query_len=num_tokens,
        page_size=16,
        attention=attention_backend(CPU),
    )
    heads = triton_backend.Heads(32, 8, 128, torch.bfloat16, torch.bfloat16)
    found = triton_backend.choose_launch(context, heads, CPU)
    return found.block_rows, found.num_splits, found.num_warps


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [
        (128, (64, 2, 4)),  # half of the device would be idle
        (256, (64, 1, 4)),
        (384, (128, 1, 8)),
        (512, (128, 1, 8)),
        (2048, (128, 1, 8)),
    ],
)
def test_keys_of_a_prompt_are_split_only_for_idle_processors(
    num_tokens: int, expected: tuple[int, int, int]
) -> None:
    assert launch(1, num_tokens) == expected


def test_two_programs_share_a_multiprocessor_where_slots_decode() -> None:
    assert launch(1, 4)[:2] == (16, 16)
    assert launch(16, 4)[:2] == (16, 2)
    assert launch(64, 4) == (16, 1, 2)
    assert launch(128, 4) == (16, 1, 1)  # eight do, and are the smaller
