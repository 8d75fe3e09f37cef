"""Owns SamplingTensors: the sampling parameters of a batch in the form that the sampling kernels
read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.batch import SamplingValues
from specguide.kernels.host_values import on_device
from specguide.params import SamplingParams

# A lower temperature counts as greedy: after the division only the best token would be left.
GREEDY_TEMPERATURE = 1e-5
_MOST = torch.iinfo(torch.int64).max


@dataclass(frozen=True)
class SamplingTensors:
    """One entry per row of logits, on the logits' device. A parameter is None if no row asks for
    it.

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
        cls,
        params: Sequence[SamplingParams | SamplingValues],
        seeds: Sequence[int],
        device: torch.device | str,
    ) -> SamplingTensors:
        """The parameters of a batch's requests, one row each; `seeds` in [0, 2^63)."""

        def tensor(
            values: list[float], neutral: float, dtype: torch.dtype = torch.float32
        ) -> Tensor | None:
            used = any(value != neutral for value in values)
            return on_device(values, device, dtype) if used else None

        return cls(
            seed=on_device(list(seeds), device, torch.int64),
            temperature=tensor([p.temperature for p in params], 0.0),
            top_k=tensor([min(max(p.top_k, 0), _MOST) for p in params], 0, torch.int64),
            top_p=tensor([p.top_p for p in params], 1.0),
            min_p=tensor([p.min_p for p in params], 0.0),
        )

    @classmethod
    def neutral(cls, num_rows: int, device: torch.device | str) -> SamplingTensors:
        """Greedy rows with all tensors present, so that there are fixed addresses to write to."""
        return cls(
            seed=torch.zeros(num_rows, dtype=torch.int64, device=device),
            temperature=torch.zeros(num_rows, device=device),
            top_k=torch.zeros(num_rows, dtype=torch.int64, device=device),
            top_p=torch.ones(num_rows, device=device),
            min_p=torch.zeros(num_rows, device=device),
        )

    def given(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Temperature, top_k, top_p and min_p, none of which may be None."""
        assert self.temperature is not None and self.top_k is not None
        assert self.top_p is not None and self.min_p is not None
        return self.temperature, self.top_k, self.top_p, self.min_p

    def select(self, rows: Tensor, like: SamplingTensors) -> SamplingTensors:
        """The rows `rows`, int64 [n], of the tensors that `like` has."""

        def chosen(name: str) -> Tensor | None:
            return None if getattr(like, name) is None else getattr(self, name)[rows]

        return SamplingTensors(
            seed=self.seed[rows],
            temperature=chosen("temperature"),
            top_k=chosen("top_k"),
            top_p=chosen("top_p"),
            min_p=chosen("min_p"),
        )
