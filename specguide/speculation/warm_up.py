"""Owns iterations without requests: they capture graphs and compile kernels at start, so that no
request waits for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

from specguide.batch import Chunk, GuideSnapshot
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.speculation.batch_sampling import Sampling, SamplingKind, all_used, graph_sizes

WarmUp = Callable[[], object]
"""Runs iterations without requests, for the graphs that they capture and the kernels that they
compile."""


def decode_kinds(max_batch_size: int) -> list[tuple[int, SamplingKind]]:
    """Number of slots and sampling kind of each decode iteration that can come, in the order in
    which to capture them."""
    return list(product(graph_sizes(max_batch_size), SamplingKind))


def prefill_kinds(
    max_batch_size: int, max_prefill_tokens: int, max_model_len: int
) -> list[tuple[list[Chunk], SamplingKind]]:
    """Prefills that together launch all kernels that any prefill can launch. Kernels are compiled
    by powers of two, and by the number of attention programs. So there are prefills whose number of
    prompts and length are each power of two, and one more than it, and with the longest prompts
    that fit."""
    max_len = min(max_prefill_tokens, max_model_len)
    numbers, lengths = _powers_of_two(max_batch_size), _powers_of_two(max_len)
    beyond = _one_more(max_batch_size)
    sizes = {
        *product(numbers, lengths),
        *product(beyond, _one_more(max_len)),
        *((number, min(max_len, max_prefill_tokens // number)) for number in beyond),
    }
    kinds = [
        (number, length, SamplingKind.GREEDY)
        for number, length in sorted(sizes)
        if 0 < number * length <= max_prefill_tokens
    ]
    kinds += [
        (number, 1, kind)
        for number in numbers
        for kind in SamplingKind
        if kind is not SamplingKind.GREEDY
    ]
    return [([Chunk([0] * length, 0)] * number, kind) for number, length, kind in kinds]


def _powers_of_two(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


def _one_more(most: int) -> list[int]:
    """One, one more than each power of two, and `most`."""
    return sorted({1, most, *(power + 1 for power in _powers_of_two(most) if power < most)})


@torch.inference_mode()
def run_idle(grammar: GrammarStream, iterate: Callable[[], object], num_times: int = 1) -> None:
    """Run `iterate` over slots that have no requests, and wait for it.

    Such slots are not active: nothing is stored or accepted for them, and the callbacks read an
    empty snapshot.
    """
    for _ in range(num_times):
        grammar.submit(GuideSnapshot(started=(), continued=()))
        with grammar.forward.current():
            grammar.recorder.begin_iteration("warm-up")
            iterate()
    grammar.forward.synchronize()


def prefills_without_requests(
    grammar: GrammarStream,
    prefill: Callable[[list[Chunk], range, Sampling], object],
    device: torch.device,
    max_batch_size: int,
    max_prefill_tokens: int,
    max_model_len: int,
) -> list[WarmUp]:
    """Functions that run `prefill` for each of `prefill_kinds`."""
    return [
        partial(
            run_idle, grammar, partial(prefill, chunks, range(len(chunks)), all_used(kind, device))
        )
        for chunks, kind in prefill_kinds(max_batch_size, max_prefill_tokens, max_model_len)
    ]


@dataclass(frozen=True)
class WarmUps:
    """Functions that compile all kernels and capture all graphs that requests may need.

    rehearsals: they launch each kernel in each way that it may be launched. Their results are not
                needed, so kernels may be compiled instead of launched
    captures:   they capture all graphs
    """

    rehearsals: Sequence[WarmUp] = ()
    captures: Sequence[WarmUp] = ()


def runs(
    grammar: GrammarStream,
    iterate: Callable[..., object],
    kinds: Iterable[tuple[Any, ...]],
) -> list[WarmUp]:
    """Functions that run `iterate` for each kind, once for every iteration that may be under
    way."""
    return [
        partial(run_idle, grammar, partial(iterate, *kind), grammar.recorder.num_under_way)
        for kind in kinds
    ]
