"""Owns mxfp4, the format of gpt-oss: experts in 4-bit numbers with an exponent for every 32 of them
(OCP Microscaling Formats 1.0); everything else is unquantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import shown
from specguide.kernels.experts import MXFP4_GROUP, ExpertMatrices
from specguide.layers.quantization.by_name import check_known
from specguide.layers.quantization.experts import ExpertWeights
from specguide.layers.quantization.method import MatrixSpec
from specguide.layers.quantization.none import UNQUANTIZED, PlainWeights


@dataclass(frozen=True)
class Mxfp4:
    """Quantizes only the experts' matrices; their products take unrounded inputs."""

    def create_weights(self, spec: MatrixSpec) -> PlainWeights:
        """Uninitialised weights of a projection, which is not quantized."""
        return UNQUANTIZED.create_weights(spec)

    def create_experts(self, specs: Sequence[MatrixSpec]) -> ExpertWeights:
        """Uninitialised weights of experts. Raises CheckpointError if a row is not a whole number
        of groups."""
        spec = specs[0]
        num = len(specs)
        if spec.in_features % MXFP4_GROUP:
            raise CheckpointError(
                f"{shown(spec.names[0])} has {spec.in_features} input features, and mxfp4 needs a "
                f"multiple of {MXFP4_GROUP}"
            )
        shape = (num, spec.out_features)
        values, scales = (
            torch.empty(*shape, spec.in_features // each, dtype=torch.uint8, device=spec.device)
            for each in (2, MXFP4_GROUP)
        )
        return ExpertWeights((), ExpertMatrices(values, scales, spec.empty_bias(num)))


def read_mxfp4(stated: Mapping[str, Any]) -> Mxfp4:
    """The quantization that `quantization_config` states. The format quantizes no projection.
    Raises CheckpointError for what is not implemented."""
    check_known(stated, ("quant_method", "modules_to_not_convert"))
    return Mxfp4()
