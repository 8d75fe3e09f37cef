"""How a launch of attention is cut into programs, on a GPU of 132 multiprocessors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton")

from specguide.kernels.attention import ForwardContext, attention_backend, triton_launch
from specguide.speculation.warm_up import prefill_kinds

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_launch, "num_multiprocessors", lambda _: 132)


LLAMA_8B = triton_launch.Heads(32, 8, 128, 128, torch.bfloat16, torch.bfloat16)


def context_of(num_seqs: int, num_tokens: int) -> ForwardContext:
    ints = dict(dtype=torch.int32)
    return ForwardContext(
        position_ids=torch.zeros(num_seqs * num_tokens, dtype=torch.int64),
        slot_mapping=torch.zeros(num_seqs * num_tokens, dtype=torch.int64),
        block_table=torch.zeros(num_seqs, 128, **ints),
        query_start_loc=torch.arange(num_seqs + 1, **ints) * num_tokens,
        seq_lens=torch.full((num_seqs,), num_tokens, **ints),
        max_query_len=num_tokens,
        page_size=16,
        attention=attention_backend(CPU),
    )


def launch(num_seqs: int, num_tokens: int) -> tuple[int, int, int]:
    """Rows, splits and warps of a launch of 32 query heads over 8 key heads, in half precision."""
    found = triton_launch.choose_launch(context_of(num_seqs, num_tokens), LLAMA_8B, CPU)
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


def compiled_for(num_seqs: int, num_tokens: int, heads: triton_launch.Heads) -> set[object]:
    """What the kernels of a prefill's attention are compiled for."""
    context = context_of(num_seqs, num_tokens)
    found = triton_launch.choose_launch(context, heads, CPU)
    num_blocks, _ = triton_launch.num_tiles(context, found.block_rows // found.group)
    most_seqs = num_blocks > 1 and num_seqs > 1 and triton_launch.most_seqs(num_seqs)
    splits = found.num_splits if found.num_splits <= 4 else 1 << (found.num_splits - 1).bit_length()
    return {("combine", splits), ("attend", replace(found, num_splits=1), most_seqs)}


@pytest.mark.parametrize("max_batch_size", [9, 100, 128])
@pytest.mark.parametrize(
    "heads",
    [
        LLAMA_8B,
        LLAMA_8B._replace(num_heads=28, num_kv_heads=4),
        LLAMA_8B._replace(num_heads=9, num_kv_heads=3, head_dim=64, value_dim=64),
        LLAMA_8B._replace(num_heads=16, num_kv_heads=1, head_dim=576, value_dim=512),
        LLAMA_8B._replace(num_kv_heads=4, head_dim=512, value_dim=512),
    ],
    ids=str,
)
def test_a_warm_up_launches_all_attention_that_a_prefill_can(
    heads: triton_launch.Heads, max_batch_size: int
) -> None:
    warm_up = prefill_kinds(max_batch_size, 2048, 4096)
    sizes = {(len(chunks), len(chunks[0].token_ids)) for chunks, _ in warm_up}
    compiled = set().union(*(compiled_for(*size, heads) for size in sizes))
    for num_seqs in range(1, max_batch_size + 1):
        for num_tokens in range(1, 2048 // num_seqs + 1):
            assert compiled_for(num_seqs, num_tokens, heads) <= compiled
