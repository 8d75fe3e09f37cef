"""Owns samples of the GPU's clock and power while something runs: a GPU at its power limit lowers
its clock."""

from __future__ import annotations

import shutil
import subprocess
from statistics import median
from types import TracebackType

_QUERY = (
    "nvidia-smi",
    "--query-gpu=clocks.sm,power.draw",
    "--format=csv,noheader,nounits",
    "--loop-ms=100",
)


class GpuClock:
    """A context that samples the first GPU ten times a second. Without nvidia-smi it has no
    samples."""

    def __enter__(self) -> GpuClock:
        self._process = (
            subprocess.Popen(_QUERY, stdout=subprocess.PIPE, text=True)
            if shutil.which(_QUERY[0])
            else None
        )
        self._lines: list[str] = []
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._lines = self._process.communicate()[0].splitlines()

    def summary(self) -> dict[str, float]:
        """Median clock of the multiprocessors, MHz, and greatest power, W; of the whole time, once
        it is over."""
        samples = [line.split(", ") for line in self._lines if line.count(", ") == 1]
        if not samples:
            return {}
        return {
            "sm_mhz": median(float(clock) for clock, _ in samples),
            "power_w": max(float(p) for _, p in samples),
        }
