"""Owns how the tiles of a product are compared: compiled in many processes first, then checked and
timed one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol

import torch
from torch import Tensor

from benchmarks.gpu.timing import CACHE_BYTES, MOST_SETS, seconds_each
from specguide.kernels.compile_ahead import rehearsal

NUM_PROCESSES, TILES_EACH = 14, 6
NUM_SHOWN = 6


class Case(Protocol):
    """A product of one shape, and what may compute it.

    name: as it is printed
    """

    @property
    def name(self) -> str: ...

    @property
    def num_bytes(self) -> int:
        """Bytes that a call must read."""

    def inputs(self) -> Any:
        """Random ones, on the GPU."""

    def tiles(self, inputs: Any) -> Sequence[Any]:
        """Dataclasses: the chosen one, then all that may be worth a try."""

    def product(self, tile: Any, inputs: Any) -> Tensor:
        """[splits, T, outputs]."""


def compile_all(cases: Sequence[Case]) -> None:
    """Compiles all tiles, so that any process finds them compiled afterwards."""
    jobs = [
        (case, first)
        for case in cases
        for first in range(0, len(case.tiles(case.inputs())), TILES_EACH)
    ]
    num_processes = min(NUM_PROCESSES, len(jobs))
    with ProcessPoolExecutor(num_processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(_compile, *zip(*jobs, strict=True)))


def _compile(case: Case, first: int) -> None:
    inputs = case.inputs()
    for tile in case.tiles(inputs)[first : first + TILES_EACH]:
        try:
            with rehearsal(inputs[0].device, 1):
                case.product(tile, inputs)
        except Exception:  # said when it is timed
            continue


def timed(case: Case) -> dict[str, float]:
    """Microseconds by tile, fastest first; the chosen one is marked. Tiles that do not fit the GPU
    are left out."""
    torch.manual_seed(0)
    num_sets = min(MOST_SETS, max(2, CACHE_BYTES // case.num_bytes))
    sets = [case.inputs() for _ in range(num_sets)]
    tiles = case.tiles(sets[0])
    wanted = case.product(tiles[0], sets[0]).float().sum(0)
    found: dict[str, float] = {}
    for tile in dict.fromkeys(tiles):
        try:
            output = case.product(tile, sets[0]).float().sum(0)
            seconds = _seconds([partial(case.product, tile, one) for one in sets])
        except Exception as error:  # too much shared memory, too few registers
            print(f"{astuple(tile)}: {str(error)[:80]}")
            continue
        try:
            torch.testing.assert_close(output, wanted, rtol=3e-2, atol=3e-2)
        except AssertionError as error:
            print(f"WRONG {astuple(tile)}: {str(error)[:200]}", flush=True)
            continue
        mark = " (chosen)" if tile == tiles[0] else ""
        found[f"{astuple(tile)}{mark}"] = round(seconds * 1e6, 2)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _seconds(calls: Sequence[Callable[[], Tensor]]) -> float:
    """A call, of one captured graph of all."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return sorted(seconds_each(graph.replay, 6)[1:])[2] / len(calls)


def shown(found: dict[str, float]) -> Iterable[str]:
    """The fastest, and the chosen one."""
    lines = [f"{tile} {us}" for tile, us in found.items()]
    return lines[:NUM_SHOWN] + [line for line in lines[NUM_SHOWN:] if "chosen" in line]


def measured(cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Prints the fastest tiles of each."""
    compile_all(cases)
    for case in cases:
        found = timed(case)
        print(f"{case.name}: " + "; ".join(shown(found)), flush=True)
        yield {"case": case.name, "us": found}
