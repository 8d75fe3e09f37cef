"""What is read of compressed-tensors' checkpoints, against the library itself where it is
installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from float8_checkpoints import FORMATS

from specguide.kernels.float8 import Float8Scaling, spread, to_float8
from specguide.layers.quantization import MatrixSpec, read_quantization
from specguide.layers.quantization.by_name import ModuleList

library: Any = pytest.importorskip("compressed_tensors")

COMPRESSED = {name: form for name, form in FORMATS.items() if name.startswith("compressed")}
SPEC = MatrixSpec(256, 128, False, ("layers.0.q_proj",), torch.device("cpu"), torch.float32)


def scheme_of(name: str) -> Any:
    from compressed_tensors.quantization import QuantizationConfig

    return QuantizationConfig.model_validate(COMPRESSED[name].config).config_groups["group_0"]


@pytest.mark.parametrize("name", COMPRESSED)
def test_weights_are_those_that_the_library_reads(name: str) -> None:
    """Compressed by the library and read here, or by the library again."""
    from compressed_tensors.compressors import BaseCompressor

    scheme, weight = scheme_of(name), torch.randn(256, 128)
    compressor = BaseCompressor.get_value_from_registry("float-quantized")
    scale, _ = COMPRESSED[name].scale_of(weight)
    stored = compressor.compress({"weight": weight, "weight_scale": scale}, scheme)
    weights: Any = read_quantization({"quantization_config": COMPRESSED[name].config})
    weights = weights.create_weights(SPEC)
    destinations = weights.destinations()
    for tensor, value in stored.items():
        assert tuple(value.shape) == destinations[tensor].shape
        destinations[tensor].fill(value)
    own = weights.scale[:, None] if weights.scale.dim() == 1 else spread(weights.scale, 256)
    exact = compressor.decompress(stored, scheme)["weight"]
    torch.testing.assert_close(weights.weight.float() * own, exact)


def test_inputs_are_rounded_as_the_library_rounds_them() -> None:
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils.helpers import compute_dynamic_scales_and_zp

    x = torch.randn(1, 7, 128)  # the library takes batches of sequences
    for name, is_grouped in (("compressed channel, token", False), ("compressed block", True)):
        arguments = scheme_of(name).input_activations
        scale, zero = compute_dynamic_scales_and_zp(x, arguments, torch.nn.Linear(128, 4))
        expected = fake_quantize(x, scale, zero, arguments)
        rows = to_float8(x[0], Float8Scaling(is_grouped=is_grouped))
        torch.testing.assert_close(rows.values.float() * rows.scale, expected[0])


@pytest.mark.parametrize("entry", ["lm_head", "re:.*mlp[.]gate$", "re:model", "layers.1"])
def test_names_match_as_in_the_library(entry: str) -> None:
    from compressed_tensors.utils.match import match_name

    for name in ("lm_head", "model.layers.1.mlp.gate", "model.layers.1.mlp.gate_proj", "a.lm_head"):
        assert (name in ModuleList.of([entry])) == match_name(name, entry)
