"""Owns SamplingTensors: the sampling parameters of a batch as the sampling kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.params import SamplingParams

# Below this a temperature is greedy: the division would leave nothing else to choose.
GREEDY_TEMPERATURE = 1e-5


@dataclass(frozen=True)
class SamplingTensors:
    """One entry per row of logits, on the logits' device. A parameter is None where no row asks for it.

    seed:        int64 [n]
    temperature: float32 [n], below 1e-5 is greedy; None: every row is greedy
    top_k:       int64 [n], 0 or less keeps all
    top_p:       float32 [n], in (0, 1]
    min_p:       float32 [n], in [0, 1]
    """

    seed: Tensor
    temperature: Tensor | None = None
    top_k: Tensor | None = None
    top_p: Tensor | None = None
    min_p: Tensor | None = None

    @classmethod
    def from_params(
        cls, params: Sequence[SamplingParams], seeds: Sequence[int], device: torch.device | str
    ) -> SamplingTensors:
        """Of a batch's requests, one row each; `seeds` in [0, 2^63)."""

        def tensor(values: list[float], neutral: float, dtype: torch.dtype = torch.float32) -> Tensor | None:
            used = any(value != neutral for value in values)
            return torch.tensor(values, dtype=dtype, device=device) if used else None

        return cls(
            seed=torch.tensor(list(seeds), dtype=torch.int64, device=device),
            temperature=tensor([p.temperature for p in params], 0.0),
            top_k=tensor([max(p.top_k, 0) for p in params], 0, torch.int64),
            top_p=tensor([p.top_p for p in params], 1.0),
            min_p=tensor([p.min_p for p in params], 0.0),
        )

    def repeat(self, num_rows: int) -> SamplingTensors:
        """Each row `num_rows` times in a row: for as many logits per request."""
        def rows(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.repeat_interleave(num_rows)

        return SamplingTensors(
            seed=self.seed.repeat_interleave(num_rows), temperature=rows(self.temperature),
            top_k=rows(self.top_k), top_p=rows(self.top_p), min_p=rows(self.min_p))
