"""What one pass of Llama-3.1-8B takes, kernel by kernel: verifying drafts, or a prompt's chunk.

    python -m benchmarks.passes [--formats bf16,fp8,int4] [--passes 1x4,16x4,64x4,128x4,1x2048]

A pass "16x4" has 16 sequences of 4 tokens each behind `--context` tokens; of more than 64 tokens,
as in "1x2048", they are the beginning of their sequence. Random weights; the target alone, with the
logits of at most 4 tokens a sequence, without drafts, grammar and sampling: `benchmarks.iteration`
has those. Times are of a captured graph, replayed in a row. Prints a table, with `--kernels` the
time of each kernel too, then one JSON line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import emit
from benchmarks.llama_8b import SHAPES, TINY_SHAPES, RandomModels
from specguide.cache import KVCache
from specguide.kernels.attention import ForwardContext, attention_backend
from specguide.models import Decoder

PAGE_SIZE, NUM_REPLAYS, NUM_SHOWN, MOST_DECODED = 16, 12, 16, 64


@dataclass(frozen=True)
class Pass:
    """Sequences with as many tokens each behind some that are cached."""

    num_sequences: int
    num_tokens: int
    num_cached: int

    @classmethod
    def read(cls, text: str, num_cached: int) -> Pass:
        num_sequences, num_tokens = map(int, text.split("x"))
        return cls(num_sequences, num_tokens, num_cached if num_tokens <= MOST_DECODED else 0)

    @property
    def name(self) -> str:
        return f"{self.num_sequences}x{self.num_tokens}"

    @property
    def num_pages_each(self) -> int:
        return -(-(self.num_cached + self.num_tokens) // PAGE_SIZE)

    def context(self, device: torch.device) -> ForwardContext:
        count, own, before = self.num_sequences, self.num_tokens, self.num_cached
        ids = dict(device=device, dtype=torch.int32)
        positions = torch.arange(before, before + own, device=device).repeat(count)
        pages = torch.arange(count * self.num_pages_each, **ids).view(count, -1)
        first = torch.arange(count, device=device) * self.num_pages_each * PAGE_SIZE
        return ForwardContext(
            position_ids=positions,
            slot_mapping=positions + first.repeat_interleave(own),
            block_table=pages,
            query_start_loc=torch.arange(count + 1, **ids) * own,
            seq_lens=torch.full((count,), before + own, **ids),
            max_query_len=own,
            page_size=PAGE_SIZE,
            attention=attention_backend(device),
        )

    def call_of(self, decoder: Decoder) -> Callable[[], Tensor]:
        """What gives the logits."""
        config, device = decoder.config, decoder.device
        shape = PAGE_SIZE, config.num_kv_heads, config.head_dim
        num_pages = self.num_sequences * self.num_pages_each
        cache = KVCache.allocate(config.num_layers, num_pages, *shape, decoder.dtype, device)
        count = self.num_sequences * self.num_tokens
        tokens = torch.randint(config.vocab_size, (count,), device=device)
        last = torch.arange(count, device=device).view(self.num_sequences, -1)[:, -4:].flatten()
        context = self.context(device)

        @torch.inference_mode()
        def call() -> Tensor:
            hidden, _ = decoder.forward(tokens, context, cache)
            return decoder.logits(hidden if self.num_tokens <= 4 else hidden[last])

        return call


def replayable(call: Callable[[], Tensor]) -> Callable[[], Any]:
    """Its graph's replay; on a CPU itself."""
    call()
    if not torch.cuda.is_available():
        return call
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def median_ms(replay: Callable[[], Any]) -> float | None:
    """None on a CPU, which is for trying the benchmark."""
    if not torch.cuda.is_available():
        return None
    times = []
    for _ in range(NUM_REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        replay()
        replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 2)
    return round(sorted(times[2:])[(NUM_REPLAYS - 2) // 2], 3)


def kernels_of(replay: Callable[[], Any]) -> list[tuple[str, int, float]]:
    """Name, number and microseconds, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        replay()
        torch.cuda.synchronize()
    found = sorted(profile.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    return [(it.key, it.count, round(it.self_device_time_total, 1)) for it in found]


def measured(form: str, one: Pass, decoder: Decoder, *, has_kernels: bool) -> dict[str, Any]:
    """Prints a row."""
    replay = replayable(one.call_of(decoder))
    row = {"format": form, "pass": one.name, "ms": median_ms(replay)}
    print(f"{form:<8} {one.name:<8} {row['ms']!s:>9} ms", flush=True)
    if has_kernels and torch.cuda.is_available():
        row["kernels"] = kernels_of(replay)
        total = sum(us for _, _, us in row["kernels"])
        print(f"   {total:9.1f} µs in {sum(count for _, count, _ in row['kernels'])} kernels")
        for name, count, us in row["kernels"][:NUM_SHOWN]:
            print(f"   {us:9.1f} µs {count:5d} × {name[:90]}", flush=True)
    return row


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--formats", default="bf16,fp8,int4", help="bf16 or of QUANTIZED")
    parser.add_argument("--passes", default="1x4,16x4,64x4,128x4,1x2048")
    parser.add_argument("--context", type=int, default=350)
    parser.add_argument("--kernels", action="store_true", help="print each kernel's time (GPU)")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the benchmark")
    args = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    rows = []
    for form in args.formats.split(","):
        shapes = (TINY_SHAPES if args.tiny else SHAPES).held_in(None if form == "bf16" else form)
        dtype = torch.bfloat16 if has_gpu else torch.float32
        decoder = RandomModels.of((), device, dtype, 4096, shapes).target
        for text in args.passes.split(","):
            one = Pass.read(text, args.context)
            rows.append(measured(form, one, decoder, has_kernels=args.kernels))
        del decoder
    emit("passes", vars(args), rows, save=False)


if __name__ == "__main__":
    main()
