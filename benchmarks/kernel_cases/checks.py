"""Compares what each GPU kernel gives with its plain-torch twin, before anything is timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import xgrammar
from torch import Tensor

from benchmarks.kernel_cases import int4
from benchmarks.kernel_cases.experts import check_experts
from benchmarks.kernel_cases.inputs import (
    NUM_NODES,
    attention_inputs,
    draft_ids,
    random_rows,
    tokens_of,
    xgrammar_backends,
)
from benchmarks.kernel_cases.shapes import HEAD_DIM, HIDDEN, INTERMEDIATE, VOCAB_SIZE
from benchmarks.models.llama_8b import DRAFT_VOCAB_SIZE
from specguide import kernels
from specguide.kernels import BitmaskRows, SamplingTensors, pointwise, reference
from specguide.kernels.attention import AttentionForm, TorchAttention
from specguide.params import SamplingParams


def check() -> None:
    """Exits where a kernel does not give what its twin gives, on the shapes that are timed (in
    float32 on a CPU)."""
    _check_attention()
    for allowed in (0.0005, 0.9):
        logits, rows = random_rows(40, VOCAB_SIZE, torch.float32, allowed)
        _check_argmax(logits, rows)
        _check_sample(logits, rows)
        _check_bitmask(logits, rows)
    _check_pointwise()
    int4.check()
    check_experts()


def _on_cpu(rows: BitmaskRows) -> BitmaskRows:
    return BitmaskRows(*(tensor.cpu() for tensor in rows))


def _check_attention() -> None:
    tensors, context = attention_inputs(2, 1000, NUM_NODES)
    moved: dict[str, Any] = {
        name: value.cpu() for name, value in vars(context).items() if isinstance(value, Tensor)
    }
    on_cpu = replace(context, attention=TorchAttention(), **moved)
    query, keys, values = (tensor.float().cpu() for tensor in tensors)
    form = AttentionForm(HEAD_DIM**-0.5)
    found: Any = context.plan.run(*tensors, form)
    wanted: Any = on_cpu.plan.run(query, keys, values, form)
    torch.testing.assert_close(found.float().cpu(), wanted, rtol=2e-2, atol=2e-2)


def _check_argmax(logits: Tensor, rows: BitmaskRows) -> None:
    """Checks the argmax over the whole vocabulary, and over a pruned one."""
    cpu_rows, ids = _on_cpu(rows), draft_ids()
    draft = logits[:, :DRAFT_VOCAB_SIZE].contiguous()
    found = kernels.masked_argmax(logits, rows).cpu()
    assert torch.equal(found, reference.masked_argmax(logits.cpu(), cpu_rows))
    found = kernels.masked_argmax(draft, rows, ids).cpu()
    assert torch.equal(found, reference.masked_argmax(draft.cpu(), cpu_rows, ids.cpu()))


def _check_sample(logits: Tensor, rows: BitmaskRows) -> None:
    """Checks the sampled tokens. One row may differ: a rounding may tip its draw."""
    params = [
        SamplingParams(temperature=0.7, top_k=20 * (row % 2), top_p=0.8 + 0.2 * (row % 3 == 0))
        for row in range(40)
    ]
    drawn, expected = (
        kernels.masked_sample(
            one_logits,
            one_rows,
            SamplingTensors.from_params(params, range(40), one_logits.device),
            torch.arange(40, device=one_logits.device),
        )
        for one_logits, one_rows in ((logits, rows), (logits.cpu(), _on_cpu(rows)))
    )
    assert int((drawn.cpu() != expected).sum()) <= 1


def _check_bitmask(logits: Tensor, rows: BitmaskRows) -> None:
    """This kernel and xgrammar's."""
    masked = [logits.clone() for _ in range(1 + len(xgrammar_backends()))]
    kernels.apply_bitmask(masked[0], rows)
    for one, backend in zip(masked[1:], xgrammar_backends().values(), strict=True):
        xgrammar.apply_token_bitmask_inplace(
            one, rows.bitmask[rows.ids], vocab_size=VOCAB_SIZE, backend=backend
        )
    expected = logits.cpu()
    reference.apply_bitmask(expected, _on_cpu(rows))
    assert all(torch.equal(one.cpu(), expected) for one in masked)


def _check_pointwise() -> None:
    x, gate_up = tokens_of(5, HIDDEN), tokens_of(5, 2 * INTERMEDIATE)
    weight = tokens_of(1, HIDDEN)[0]
    torch.testing.assert_close(
        kernels.rms_norm(x, weight, 1e-5).cpu(), pointwise.rms_norm(x.cpu(), weight.cpu(), 1e-5)
    )
    torch.testing.assert_close(
        kernels.silu_mul(gate_up).cpu(), pointwise.silu_mul(gate_up.cpu()), rtol=2e-2, atol=2e-2
    )
