"""Times each GPU kernel on Llama-3.1-8B shapes, after comparing what it gives with its plain-torch
twin.

    python -m benchmarks.kernels [--only NAME,…] [--save-as NAME] [--no-save]

Times are per call, of graphs in which the call is captured over as many sets of inputs as overflow
the cache; bytes are those that no kernel could spare (each input read once, each output written
once), held against the bandwidth of a large copy on the same device. Where there is another way to
the same result, its time is taken on the same inputs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch
import xgrammar
from torch import Tensor

from benchmarks import common
from specguide import kernels
from specguide.kernels import BitmaskRows, SamplingTensors, pointwise, reference
from specguide.kernels.attention import ForwardContext, TorchAttention, attention_backend
from specguide.params import SamplingParams

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, HIDDEN, INTERMEDIATE = 32, 8, 128, 4096, 14336
VOCAB_SIZE, DRAFT_VOCAB_SIZE, PAGE_SIZE, NUM_NODES = 128_256, 32_000, 16, 4
BATCHES, CONTEXTS = (1, 16, 64, 128), (1024, 8192)
CACHE_BYTES, MOST_SETS = 256 << 20, 24
DEVICE = torch.device("cuda")

Call = Callable[[], Any]
Make = Callable[[], tuple[Call, int]]


@dataclass(frozen=True)
class Case:
    """One row of the table. `make` gives a call on inputs of its own, and the bytes that it must
    move.

    rivals: other ways to the same result, by name, each as `make`
    """

    kernel: str
    shape: str
    make: Make
    rivals: Mapping[str, Make] = field(default_factory=dict)


def measure(make: Make) -> tuple[float, int]:
    """Seconds a call and its bytes."""
    torch.manual_seed(0)
    call, num_bytes = make()
    calls = [
        call,
        *(make()[0] for _ in range(min(MOST_SETS, max(1, CACHE_BYTES // num_bytes)) - 1)),
    ]
    if len(calls) == 1 and num_bytes < 1 << 30:
        calls.append(make()[0])
    for one in calls[:2]:
        one()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(max(1, 16 // len(calls))):
            for one in calls:
                one()
    num_calls = len(calls) * max(1, 16 // len(calls))
    times = []
    for _ in range(8):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3 / num_calls)
    return sorted(times[2:])[3], num_bytes


def copy_bandwidth() -> float:
    """Bytes a second, read and written, of a copy of 2 GiB."""
    source, sink = (
        torch.empty(1 << 30, dtype=torch.bfloat16, device=DEVICE).normal_() for _ in range(2)
    )
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        sink.copy_(source)
    start.record()
    for _ in range(5):
        sink.copy_(source)
    end.record()
    end.synchronize()
    return 5 * 2 * source.nbytes / (start.elapsed_time(end) / 1e3)


def attention_inputs(
    batch: int, context_len: int, query_len: int
) -> tuple[tuple[Tensor, Tensor, Tensor], Any]:
    """query, caches in scattered pages, and the context of one pass."""
    num_pages = -(-(context_len + query_len) // PAGE_SIZE)
    shape = (batch * num_pages, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM)
    caches = [torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)]
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
    return (fused[:, :NUM_HEADS], *caches), context


def attention(batch: int, context_len: int, query_len: int) -> tuple[Call, int]:
    tensors, context = attention_inputs(batch, context_len, query_len)
    num_bytes = 2 * batch * (context_len + query_len) * NUM_KV_HEADS * HEAD_DIM * 2
    num_bytes += 2 * batch * query_len * NUM_HEADS * HEAD_DIM * 2
    return partial(context.plan.run, *tensors, scale=HEAD_DIM**-0.5), num_bytes


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
    num_rows: int, dtype: torch.dtype, allowed: float, backend: str
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
    x, weight = tokens_of(num_tokens, HIDDEN), tokens_of(1, HIDDEN)[0]
    return partial(kernels.rms_norm, x, weight, 1e-5), 2 * x.nbytes + weight.nbytes


def add_norm(num_tokens: int) -> tuple[Call, int]:
    x, residual, weight = (
        tokens_of(num_tokens, HIDDEN),
        tokens_of(num_tokens, HIDDEN),
        tokens_of(1, HIDDEN)[0],
    )
    return partial(kernels.add_rms_norm, residual, x, weight, 1e-5), 4 * x.nbytes + weight.nbytes


def silu_mul(num_tokens: int) -> tuple[Call, int]:
    gate_up = tokens_of(num_tokens, 2 * INTERMEDIATE)
    return partial(kernels.silu_mul, gate_up), gate_up.nbytes * 3 // 2


def rope(num_tokens: int) -> tuple[Call, int]:
    heads = tokens_of(num_tokens, NUM_HEADS + 2 * NUM_KV_HEADS, HEAD_DIM)
    rotary = tokens_of(num_tokens, 2, 1, HEAD_DIM)
    caches = [
        torch.zeros(64, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(2)
    ]
    slots = torch.randperm(64 * PAGE_SIZE, device=DEVICE)[:num_tokens]
    rotated = NUM_HEADS + NUM_KV_HEADS
    return partial(
        kernels.rope_and_store, heads[:, :rotated], heads[:, rotated:], rotary, *caches, slots
    ), (2 * heads.nbytes + rotary.nbytes)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def xgrammar_backends() -> dict[str, str]:
    """Those that run here, by the name in the table: its default on a GPU, and the one that nvcc
    must compile."""
    try:
        import_module("xgrammar.kernels.apply_token_bitmask_inplace_cuda")
    except (ImportError, OSError, RuntimeError):
        return {"xgrammar": "auto"}
    return {"xgrammar": "auto", "xgrammar CUDA": "cuda"}


def cases() -> Iterator[Case]:
    for context_len in CONTEXTS:
        for batch in BATCHES:
            for query_len in (1, NUM_NODES):
                yield Case(
                    "paged_attention",
                    f"batch {batch} × {query_len}, context {context_len}",
                    partial(attention, batch, context_len, query_len),
                )
    for num_rows in (1, 4, 64, 256, 512):
        for allowed in (0.001, 0.9):
            for dtype, pruned in (
                (torch.float32, False),
                (torch.bfloat16, False),
                (torch.bfloat16, True),
            ):
                width = "32k of 128k" if pruned else "128k"
                yield Case(
                    "masked_argmax",
                    f"{num_rows} × {width}, {name_of(dtype)}, {allowed:.1%} allowed",
                    partial(argmax, num_rows, dtype, allowed, pruned),
                    {
                        "apply + argmax": partial(
                            apply_then_argmax, num_rows, dtype, allowed, pruned
                        )
                    },
                )
    for num_rows in (4, 64, 512):
        for allowed in (0.01, 0.9):
            for dtype in (torch.float32, torch.bfloat16):
                rivals = {
                    name: partial(xgrammar_apply, num_rows, dtype, allowed, backend)
                    for name, backend in xgrammar_backends().items()
                }
                yield Case(
                    "apply_bitmask",
                    f"{num_rows} × 128k, {name_of(dtype)}, {allowed:.1%} allowed",
                    partial(apply_bitmask, num_rows, dtype, allowed),
                    rivals,
                )
    filters = {
        "": {},
        ", top-p 0.95": {"top_p": 0.95},
        ", top-k 20": {"top_k": 20},
        ", top-k 20, top-p 0.8": {"top_k": 20, "top_p": 0.8},
    }
    for num_rows in (4, 64, 512):
        for name, values in filters.items():
            yield Case(
                "masked_sample",
                f"{num_rows} × 128k, float32{name}",
                partial(sample, num_rows, SamplingParams(temperature=0.7, **values), 0.9),
            )
    for name, pointwise_make in (
        ("rms_norm", norm),
        ("add_rms_norm", add_norm),
        ("silu_mul", silu_mul),
        ("rope_and_store", rope),
    ):
        for num_tokens in (1, 4, 64, 256, 512):
            yield Case(name, f"{num_tokens} tokens", partial(pointwise_make, num_tokens))


def check() -> None:
    """Exits where a kernel does not give what its twin gives, on the shapes that are timed (in
    float32 on a CPU)."""
    tensors, context = attention_inputs(2, 1000, NUM_NODES)
    on_cpu = replace(
        context,
        attention=TorchAttention(),
        **{name: value.cpu() for name, value in vars(context).items() if isinstance(value, Tensor)},
    )
    found = context.plan.run(*tensors, scale=HEAD_DIM**-0.5)
    wanted = on_cpu.plan.run(*(t.float().cpu() for t in tensors), scale=HEAD_DIM**-0.5)
    torch.testing.assert_close(found.float().cpu(), wanted, rtol=2e-2, atol=2e-2)
    for allowed in (0.0005, 0.9):
        logits, rows = random_rows(40, VOCAB_SIZE, torch.float32, allowed)
        cpu_logits, cpu_rows = logits.cpu(), BitmaskRows(*(tensor.cpu() for tensor in rows))
        draft, ids = logits[:, :DRAFT_VOCAB_SIZE].contiguous(), draft_ids()
        assert torch.equal(
            kernels.masked_argmax(logits, rows).cpu(),
            reference.masked_argmax(cpu_logits, cpu_rows),
        )
        assert torch.equal(
            kernels.masked_argmax(draft, rows, ids).cpu(),
            reference.masked_argmax(draft.cpu(), cpu_rows, ids.cpu()),
        )
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
            for one_logits, one_rows in ((logits, rows), (cpu_logits, cpu_rows))
        )
        assert int((drawn.cpu() != expected).sum()) <= 1
        masked = [logits.clone() for _ in range(1 + len(xgrammar_backends()))]
        kernels.apply_bitmask(masked[0], rows)
        for one, backend in zip(masked[1:], xgrammar_backends().values(), strict=True):
            xgrammar.apply_token_bitmask_inplace(
                one, rows.bitmask[rows.ids], vocab_size=VOCAB_SIZE, backend=backend
            )
        reference.apply_bitmask(cpu_logits, cpu_rows)
        assert all(torch.equal(one.cpu(), cpu_logits) for one in masked)
    x, weight, gate_up = (
        tokens_of(5, HIDDEN),
        tokens_of(1, HIDDEN)[0],
        tokens_of(5, 2 * INTERMEDIATE),
    )
    torch.testing.assert_close(
        kernels.rms_norm(x, weight, 1e-5).cpu(), pointwise.rms_norm(x.cpu(), weight.cpu(), 1e-5)
    )
    torch.testing.assert_close(
        kernels.silu_mul(gate_up).cpu(), pointwise.silu_mul(gate_up.cpu()), rtol=2e-2, atol=2e-2
    )


def row_of(case: Case, bandwidth: float) -> dict[str, Any]:
    """Measures a case and prints its line."""
    seconds, num_bytes = measure(case.make)
    rate = num_bytes / seconds
    against = {}
    for name, make in case.rivals.items():
        other = measure(make)[0]
        against[name] = {"us": round(other * 1e6, 2), "ratio": round(seconds / other, 3)}
    print(
        f"{case.kernel:<16} {case.shape:<44} {seconds * 1e6:>9.1f} {rate / 1e9:>7.0f} "
        f"{rate / bandwidth:>7.2f}  "
        + ", ".join(f"{found['ratio']:.2f} × {name}" for name, found in against.items()),
        flush=True,
    )
    return {
        "kernel": case.kernel,
        "shape": case.shape,
        "us": round(seconds * 1e6, 2),
        "gb_per_s": round(rate / 1e9, 1),
        "of_copy": round(rate / bandwidth, 3),
        "against": against,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="kernels whose names contain one of these, comma-separated"
    )
    parser.add_argument(
        "--save-as", help="keep the result as kernels_<this>.json; with --only needed to keep it"
    )
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark times GPU kernels and finds no CUDA device")
    check()
    bandwidth = copy_bandwidth()
    print(
        f"copy: {bandwidth / 1e9:.0f} GB/s\n{'kernel':<16} {'shape':<44} {'µs':>9} {'GB/s':>7} "
        f"{'of copy':>7}"
    )
    results = []
    for case in cases():
        if any(name in case.kernel for name in options.only.split(",")):
            results.append(row_of(case, bandwidth))
    config = {
        "num_heads": NUM_HEADS,
        "num_kv_heads": NUM_KV_HEADS,
        "head_dim": HEAD_DIM,
        "page_size": PAGE_SIZE,
        "vocab_size": VOCAB_SIZE,
        "draft_vocab_size": DRAFT_VOCAB_SIZE,
        "torch": torch.__version__,
        "xgrammar": version("xgrammar"),
    }
    name = f"kernels_{options.save_as}" if options.save_as else "kernels"
    common.emit(
        name,
        config,
        results,
        {"copy_gb_per_s": round(bandwidth / 1e9, 1)},
        save=not options.no_save and bool(options.save_as or not options.only),
    )


if __name__ == "__main__":
    main()
