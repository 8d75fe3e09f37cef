"""Owns the inputs of the kernel benchmark, at Llama-3.1-8B shapes.

Each function gives a call on inputs of its own, and the bytes that it must move.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Literal

import torch
import xgrammar
from torch import Tensor

from benchmarks.gpu.timing import DEVICE, Call
from benchmarks.kernel_cases.shapes import (
    HEAD_DIM,
    HIDDEN,
    INTERMEDIATE,
    NUM_HEADS,
    NUM_KV_HEADS,
    VOCAB_SIZE,
)
from benchmarks.models.llama_8b import DRAFT_VOCAB_SIZE
from specguide import kernels
from specguide.kernels import BitmaskRows, SamplingTensors
from specguide.kernels.attention import AttentionForm, ForwardContext, attention_backend
from specguide.params import SamplingParams

PAGE_SIZE, NUM_NODES = 16, 4
Backend = Literal["auto", "cuda"]
"""Of xgrammar's kernels."""


def attention_inputs(
    batch: int, context_len: int, query_len: int
) -> tuple[tuple[Tensor, Tensor, Tensor], ForwardContext]:
    """Query, keys and values in scattered pages, and the context of one pass."""
    num_pages = -(-(context_len + query_len) // PAGE_SIZE)
    shape = (batch * num_pages, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM)
    keys, values = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    start = torch.full((batch,), context_len, device=DEVICE)
    context = ForwardContext(
        position_ids=(start[:, None] + torch.arange(query_len, device=DEVICE)).flatten(),
        slot_mapping=torch.full((batch * query_len,), -1, device=DEVICE),
        block_table=torch.randperm(batch * num_pages, device=DEVICE).view(batch, num_pages).int(),
        query_start_loc=torch.arange(batch + 1, device=DEVICE).mul(query_len).int(),
        seq_lens=(start + query_len).int(),
        max_query_len=query_len,
        page_size=PAGE_SIZE,
        attention=attention_backend(DEVICE),
    )
    fused = torch.randn(
        batch * query_len, NUM_HEADS + 2, HEAD_DIM, device=DEVICE, dtype=torch.bfloat16
    )
    return (fused[:, :NUM_HEADS], keys, values), context


def attention(
    batch: int, context_len: int, query_len: int, cache_dtype: torch.dtype = torch.bfloat16
) -> tuple[Call, int]:
    (query, keys, values), context = attention_inputs(batch, context_len, query_len)
    tensors = query, keys.to(cache_dtype), values.to(cache_dtype)
    num_keys = batch * (context_len + query_len)
    num_bytes = 2 * num_keys * NUM_KV_HEADS * HEAD_DIM * cache_dtype.itemsize
    num_bytes += 2 * batch * query_len * NUM_HEADS * HEAD_DIM * 2
    return partial(context.plan.run, *tensors, AttentionForm(HEAD_DIM**-0.5)), num_bytes


def random_rows(
    num_rows: int, width: int, dtype: torch.dtype, allowed: float
) -> tuple[Tensor, BitmaskRows]:
    """Logits, and the rows that they are read under, all of them guided."""
    random = torch.rand(num_rows, VOCAB_SIZE, device=DEVICE) < allowed
    words = (random.view(num_rows, -1, 32).long() << torch.arange(32, device=DEVICE)).sum(2)
    bitmask = torch.where(words >= 1 << 31, words - (1 << 32), words).int()
    logits = torch.randn(num_rows, width, device=DEVICE).mul_(3).to(dtype)
    guided = torch.ones(num_rows, dtype=torch.uint8, device=DEVICE)
    return logits, BitmaskRows(bitmask, guided, torch.randperm(num_rows, device=DEVICE))


def rows_bytes(logits: Tensor, rows: BitmaskRows) -> int:
    return logits.nbytes + rows.bitmask.nbytes + 8 * len(logits)


def draft_ids() -> Tensor:
    return torch.randperm(VOCAB_SIZE, device=DEVICE)[:DRAFT_VOCAB_SIZE].sort().values.int()


def argmax(num_rows: int, dtype: torch.dtype, allowed: float, pruned: bool) -> tuple[Call, int]:
    rows = random_rows(num_rows, DRAFT_VOCAB_SIZE if pruned else VOCAB_SIZE, dtype, allowed)
    ids = draft_ids() if pruned else None
    return partial(kernels.masked_argmax, *rows, ids), rows_bytes(*rows) + (
        ids.nbytes if ids is not None else 0
    )


def apply_then_argmax(
    num_rows: int, dtype: torch.dtype, allowed: float, pruned: bool
) -> tuple[Call, int]:
    """The two passes that masked_argmax saves; a pruned row's mask is taken as looked up through
    d2t before."""
    rows = random_rows(num_rows, DRAFT_VOCAB_SIZE if pruned else VOCAB_SIZE, dtype, allowed)

    def call() -> Tensor:
        kernels.apply_bitmask(*rows)
        return rows[0].argmax(-1)

    return call, rows_bytes(*rows)


def apply_bitmask(num_rows: int, dtype: torch.dtype, allowed: float) -> tuple[Call, int]:
    rows = random_rows(num_rows, VOCAB_SIZE, dtype, allowed)
    num_written = int(rows[0].nbytes * (1 - allowed))
    return partial(kernels.apply_bitmask, *rows), num_written + rows[1].bitmask.nbytes


def xgrammar_apply(
    num_rows: int, dtype: torch.dtype, allowed: float, backend: Backend
) -> tuple[Call, int]:
    """The library's own kernel, which takes rows in order."""
    logits, rows = random_rows(num_rows, VOCAB_SIZE, dtype, allowed)
    call = partial(
        xgrammar.apply_token_bitmask_inplace,
        logits,
        rows.bitmask[rows.ids],
        vocab_size=VOCAB_SIZE,
        backend=backend,
    )
    return call, int(logits.nbytes * (1 - allowed)) + rows.bitmask.nbytes


def sample(num_rows: int, params: SamplingParams, allowed: float) -> tuple[Call, int]:
    rows = random_rows(num_rows, VOCAB_SIZE, torch.float32, allowed)
    tensors = SamplingTensors.from_params([params] * num_rows, range(num_rows), DEVICE)
    positions = torch.arange(num_rows, device=DEVICE)
    return partial(kernels.masked_sample, *rows, tensors, positions), rows_bytes(*rows)


def tokens_of(num_tokens: int, *shape: int) -> Tensor:
    return torch.randn(num_tokens, *shape, device=DEVICE, dtype=torch.bfloat16)


def norm(num_tokens: int) -> tuple[Call, int]:
    x = tokens_of(num_tokens, HIDDEN)
    weight = tokens_of(1, HIDDEN)[0]
    return partial(kernels.rms_norm, x, weight, 1e-5), 2 * x.nbytes + weight.nbytes


def add_norm(num_tokens: int) -> tuple[Call, int]:
    x = tokens_of(num_tokens, HIDDEN)
    residual = tokens_of(num_tokens, HIDDEN)
    weight = tokens_of(1, HIDDEN)[0]
    return partial(kernels.add_rms_norm, residual, x, weight, 1e-5), 4 * x.nbytes + weight.nbytes


def silu_mul(num_tokens: int) -> tuple[Call, int]:
    gate_up = tokens_of(num_tokens, 2 * INTERMEDIATE)
    return partial(kernels.silu_mul, gate_up), gate_up.nbytes * 3 // 2


def rope(num_tokens: int) -> tuple[Call, int]:
    heads = tokens_of(num_tokens, NUM_HEADS + 2 * NUM_KV_HEADS, HEAD_DIM)
    rotary = tokens_of(num_tokens, 2, 1, HEAD_DIM)
    keys, values = (
        torch.zeros(64, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(2)
    )
    slots = torch.randperm(64 * PAGE_SIZE, device=DEVICE)[:num_tokens]
    rotated = NUM_HEADS + NUM_KV_HEADS
    return partial(
        kernels.rope_and_store, heads[:, :rotated], heads[:, rotated:], rotary, keys, values, slots
    ), (2 * heads.nbytes + rotary.nbytes)


@cache
def xgrammar_backends() -> dict[str, Backend]:
    """The backends that run here, by their names in the table: the default on a GPU, and the one
    that nvcc must compile."""
    try:
        import_module("xgrammar.kernels.apply_token_bitmask_inplace_cuda")
    except (ImportError, OSError, RuntimeError):
        return {"xgrammar": "auto"}
    return {"xgrammar": "auto", "xgrammar CUDA": "cuda"}
