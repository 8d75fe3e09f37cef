"""Times each GPU kernel on Llama-3.1-8B shapes, layers of experts on those of Qwen3-30B-A3B,
GLM-4.5-Air and gpt-oss 20B, after comparing what they give with their plain-torch twins.

    python -m benchmarks.kernels [--only NAME,…] [--save-as NAME] [--no-save]

Times are per call, of graphs in which the call is captured over as many sets of inputs as overflow
the cache; bytes are those that no kernel could spare (each input read once, each output written
once; of experts, the weights of those in use), held against the bandwidth of a large copy on the
same device. Where there is another way to the same result, its time is taken on the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any

import torch

from benchmarks import common
from benchmarks.common import argument_parser
from benchmarks.gpu.timing import Make, copy_bandwidth, measure, require_gpus
from benchmarks.kernel_cases.checks import check
from benchmarks.kernel_cases.experts import EXPERTS, experts
from benchmarks.kernel_cases.inputs import (
    NUM_NODES,
    PAGE_SIZE,
    add_norm,
    apply_bitmask,
    apply_then_argmax,
    argmax,
    attention,
    norm,
    rope,
    sample,
    silu_mul,
    xgrammar_apply,
    xgrammar_backends,
)
from benchmarks.kernel_cases.int4 import PRODUCTS, ROWS, bf16_product, int4_product
from benchmarks.kernel_cases.shapes import HEAD_DIM, NUM_HEADS, NUM_KV_HEADS, VOCAB_SIZE
from benchmarks.models.llama_8b import DRAFT_VOCAB_SIZE
from specguide.params import SamplingParams

BATCHES, CONTEXTS = (1, 16, 64, 128), (1024, 8192)


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


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def cases() -> Iterator[Case]:
    """All rows of the table."""
    yield from attention_cases()
    yield from argmax_cases()
    yield from bitmask_cases()
    yield from sample_cases()
    yield from int4_cases()
    makes = dict(rms_norm=norm, add_rms_norm=add_norm, silu_mul=silu_mul, rope_and_store=rope)
    for (name, layer), num_tokens in product(EXPERTS.items(), (1, 4, 16, 64, 512)):
        yield Case("experts", f"{num_tokens} tokens, {name}", partial(experts, layer, num_tokens))
    for (name, make), num_tokens in product(makes.items(), (1, 4, 64, 256, 512)):
        yield Case(name, f"{num_tokens} tokens", partial(make, num_tokens))


def int4_cases() -> Iterator[Case]:
    """Products of symmetric weights and of weights with zeros, beside the same in bf16."""
    for num_rows, (name, layer), has_zeros in product(ROWS, PRODUCTS.items(), (False, True)):
        yield Case(
            "int4_linear",
            f"{num_rows} rows, {name}" + (", with zeros" if has_zeros else ""),
            partial(int4_product, layer, num_rows, has_zeros=has_zeros),
            {"bf16": partial(bf16_product, layer, num_rows)},
        )


def attention_cases() -> Iterator[Case]:
    """Attention with keys and values in bf16 and in fp8."""
    dtypes = {"": torch.bfloat16, ", fp8": torch.float8_e4m3fn}
    sizes = product(CONTEXTS, BATCHES, (1, NUM_NODES), dtypes.items())
    for context_len, batch, query_len, (name, dtype) in sizes:
        yield Case(
            "paged_attention",
            f"batch {batch} × {query_len}, context {context_len}{name}",
            partial(attention, batch, context_len, query_len, dtype),
        )


def argmax_cases() -> Iterator[Case]:
    """The argmax of all tokens in both types, and of a pruned vocabulary."""
    kinds = ((torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True))
    for num_rows, allowed, (dtype, pruned) in product((1, 4, 64, 256, 512), (0.001, 0.9), kinds):
        width = "32k of 128k" if pruned else "128k"
        given = num_rows, dtype, allowed, pruned
        yield Case(
            "masked_argmax",
            f"{num_rows} × {width}, {name_of(dtype)}, {allowed:.1%} allowed",
            partial(argmax, *given),
            {"apply + argmax": partial(apply_then_argmax, *given)},
        )


def bitmask_cases() -> Iterator[Case]:
    dtypes = (torch.float32, torch.bfloat16)
    for num_rows, allowed, dtype in product((4, 64, 512), (0.01, 0.9), dtypes):
        yield Case(
            "apply_bitmask",
            f"{num_rows} × 128k, {name_of(dtype)}, {allowed:.1%} allowed",
            partial(apply_bitmask, num_rows, dtype, allowed),
            {
                name: partial(xgrammar_apply, num_rows, dtype, allowed, backend)
                for name, backend in xgrammar_backends().items()
            },
        )


def sample_cases() -> Iterator[Case]:
    filters: dict[str, dict[str, Any]] = {
        "": {},
        ", top-p 0.95": {"top_p": 0.95},
        ", top-k 20": {"top_k": 20},
        ", top-k 20, top-p 0.8": {"top_k": 20, "top_p": 0.8},
    }
    for num_rows, (name, values) in product((4, 64, 512), filters.items()):
        yield Case(
            "masked_sample",
            f"{num_rows} × 128k, float32{name}",
            partial(sample, num_rows, SamplingParams(temperature=0.7, **values), 0.9),
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
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--only", default="", help="kernels whose names contain one of these, comma-separated"
    )
    parser.add_argument(
        "--save-as", help="keep the result as kernels_<this>.json; with --only needed to keep it"
    )
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    require_gpus()
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
