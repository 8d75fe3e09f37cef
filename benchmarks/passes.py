"""The time of one pass of Llama-3.1-8B, kernel by kernel: a verification of drafts, or a chunk of a
prompt.

    python -m benchmarks.passes [--formats bf16,fp8,int4] [--passes 1x4,16x4,64x4,128x4,1x2048]
    [--model llama-8b] [--ranks-of 1] [--kv-cache-dtype auto] [--adapters 0 --rank 16]

A pass "16x4" has 16 sequences of 4 tokens each behind `--context` tokens; of more than 64 tokens,
as in "1x2048", they are the beginning of their sequence. Random weights; the target alone, with the
logits of at most 4 tokens a sequence, without drafts, grammar and sampling: `benchmarks.iteration`
has those. Times are of a captured graph, replayed in a row; floor: bytes of weights, keys and
values ÷ the bandwidth of copies. Prints a table, with `--kernels` the time of each kernel and of
families of them too, then one JSON line.

With `--adapters N`, the target has N LoRA adapters for all linear layers of a dense model, and the
sequences take turns with them. With `--ranks-of N`, what one of N ranks computes, on one GPU: the
kernels that also sum over ranks that share memory, which wait for nobody here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.kernel_families import longest, profiled, shares
from benchmarks.gpu.timing import ON_A_CPU, copy_bandwidth, require_gpus, seconds_each
from benchmarks.models.by_name import MODELS
from benchmarks.models.llama_8b import RandomModels
from specguide.cache import KVCache
from specguide.kernels import Peers
from specguide.kernels.attention import ForwardContext, StateRows, attention_backend
from specguide.kernels.peers import peers_num_bytes
from specguide.layers.lora import NO_LORA, Lora, LoraForm
from specguide.models import Decoder
from specguide.parallel import ONE_RANK, NoCollectives, Ranks
from specguide.speculation.drafters import keys_of

PAGE_SIZE, NUM_REPLAYS, NUM_SHOWN, MOST_DECODED = 16, 12, 16, 64
MOST_SUMMED = 1024
MLP = ("gate", "up", "down")


class NobodyElse(NoCollectives):
    """What a rank without others calls, so that it computes its part alone."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._peers: dict[tuple[int, torch.dtype], Peers] = {}

    def peers(self, num_rows: int, dim: int, dtype: torch.dtype) -> Peers | None:
        if num_rows > MOST_SUMMED:
            return None
        if (dim, dtype) not in self._peers:
            shape = MOST_SUMMED, dim
            num_bytes = peers_num_bytes(1, shape, dtype)
            memory = torch.zeros(num_bytes, dtype=torch.uint8, device=self._device)
            aborted = torch.zeros(1, dtype=torch.int32, device=self._device)
            self._peers[dim, dtype] = Peers.over(0, [memory], shape, dtype, aborted, 16)
        return self._peers[dim, dtype]


def first_of(num_ranks: int, device: torch.device) -> Ranks:
    """One rank of so many, without the others."""
    return ONE_RANK if num_ranks == 1 else Ranks(0, num_ranks, NobodyElse(device))


def lora_of(num_layers: int, num_adapters: int, rank: int) -> Lora:
    """Adapters for all linear layers."""
    names = [f"self_attn.{it}_proj" for it in "qkvo"] + [f"mlp.{it}_proj" for it in MLP]
    form = LoraForm(rank, 1.0)
    maps = [f"model.layers.{layer}.{name}" for layer in range(num_layers) for name in names]
    return Lora([dict.fromkeys(maps, form)] * num_adapters) if num_adapters else NO_LORA


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

    def context(self, device: torch.device, num_adapters: int) -> ForwardContext:
        count, own, before = self.num_sequences, self.num_tokens, self.num_cached
        ids: dict[str, Any] = dict(device=device, dtype=torch.int32)
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
            adapter_ids=(
                (torch.arange(count, **ids) % num_adapters + 1).repeat_interleave(own)
                if num_adapters
                else None
            ),
            states=StateRows(
                torch.arange(count, device=device),
                torch.full((count,), before, device=device),
                self._num_open,
            ),
        )

    @property
    def _num_open(self) -> int:
        """Tokens of a sequence that may be rejected: all that are verified, one of a prompt."""
        return self.num_tokens if self.num_tokens <= MOST_DECODED else 1

    def call_of(
        self, decoder: Decoder, cache_dtype: torch.dtype, num_adapters: int = 0
    ) -> Callable[[], Tensor]:
        """What gives the logits."""
        device = decoder.device
        num_pages = self.num_sequences * self.num_pages_each
        cache = KVCache.allocate(keys_of(decoder), num_pages, PAGE_SIZE, cache_dtype, device)
        cache = replace(cache, states=decoder.new_states(self.num_sequences, self._num_open))
        count = self.num_sequences * self.num_tokens
        tokens = torch.randint(decoder.config.vocab_size, (count,), device=device)
        last = torch.arange(count, device=device).view(self.num_sequences, -1)[:, -4:].flatten()
        context = self.context(device, num_adapters)

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
    return partial(_replay, graph, call)


def _replay(graph: torch.cuda.CUDAGraph, call: Callable[[], Tensor]) -> None:
    """`call` holds what the graph reads."""
    graph.replay()


def median_ms(replay: Callable[[], Any]) -> float | None:
    """None on a CPU, which only serves to try the benchmark."""
    if not torch.cuda.is_available():
        return None
    twice = seconds_each(lambda: (replay(), replay()), NUM_REPLAYS)
    return round(1e3 * sorted(twice[2:])[(NUM_REPLAYS - 2) // 2] / 2, 3)


def kernels_of(replay: Callable[[], Any], num_sequences: int) -> dict[str, Any]:
    """Microseconds of families, and of the kernels that take longest with their number; printed."""
    kernels = profiled(replay)
    families = {name: round(us, 1) for name, us in shares(kernels, num_sequences).items()}
    print(f"   {sum(families.values()):9.1f} µs in {len(kernels)} kernels, of it")
    for name, us in sorted(families.items(), key=lambda each: -each[1]):
        print(f"   {us:9.1f} µs {name}")
    own = longest(kernels, NUM_SHOWN)
    for name, us, count in own:
        print(f"   {us:9.1f} µs {count:5d} × {name[:90]}", flush=True)
    return {"families": families, "kernels": own}


def measured(
    form: str,
    one: Pass,
    models: RandomModels,
    cache_dtype: torch.dtype,
    bandwidth: float,
    num_adapters: int,
    *,
    has_kernels: bool,
) -> dict[str, Any]:
    """Prints a row. bandwidth: bytes a second"""
    replay = replayable(one.call_of(models.target, cache_dtype, num_adapters))
    num_cached = one.num_sequences * (one.num_cached + one.num_tokens)
    cache_bytes = models.num_cache_bytes_read("", 0, num_cached)
    cache_bytes *= cache_dtype.itemsize / models.target.dtype.itemsize
    floor_ms = round(1e3 * (models.num_bytes_read("", 0, 1.0) + cache_bytes) / bandwidth, 3)
    row = {"format": form, "pass": one.name, "ms": median_ms(replay), "floor_ms": floor_ms}
    print(f"{form:<8} {one.name:<8} {row['ms']!s:>9} ms, floor {floor_ms}", flush=True)
    if has_kernels and torch.cuda.is_available():
        row |= kernels_of(replay, one.num_sequences)
    return row


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--formats", default="bf16,fp8,int4", help="bf16 or of QUANTIZED")
    parser.add_argument("--passes", default="1x4,16x4,64x4,128x4,1x2048")
    parser.add_argument("--context", type=int, default=350)
    parser.add_argument("--kv-cache-dtype", choices=("auto", "fp8"), default="auto")
    parser.add_argument("--model", choices=MODELS, default="llama-8b", help="whose shapes")
    parser.add_argument("--ranks-of", type=int, default=1, help="ranks, of which one is measured")
    parser.add_argument("--adapters", type=int, default=0, help="LoRA adapters of the target")
    parser.add_argument("--rank", type=int, default=16, help="of each adapter")
    parser.add_argument("--kernels", action="store_true", help="print each kernel's time (GPU)")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the benchmark")
    args = parser.parse_args()
    if not args.tiny:
        require_gpus(instead=ON_A_CPU)
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    rows = []
    dtype = torch.bfloat16 if has_gpu else torch.float32
    cache_dtype = torch.float8_e4m3fn if args.kv_cache_dtype == "fp8" else dtype
    bandwidth = copy_bandwidth() if has_gpu else float("inf")
    for form in args.formats.split(","):
        shapes = MODELS[args.model][args.tiny].held_in(None if form == "bf16" else form)
        ranks = first_of(args.ranks_of, device)
        lora = lora_of(shapes.target["num_hidden_layers"], args.adapters, args.rank)
        models = RandomModels.of((), device, dtype, 4096, shapes, ranks, lora=lora)
        for text in args.passes.split(","):
            one = Pass.read(text, args.context)
            row = measured(
                *(form, one, models, cache_dtype, bandwidth, args.adapters),
                has_kernels=args.kernels,
            )
            rows.append(row)
        del models
    emit("passes", vars(args), rows, save=False)


if __name__ == "__main__":
    main()
