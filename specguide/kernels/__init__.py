"""The narrow interface to everything that runs on the device.

Each operation has two implementations: a plain-torch twin, which defines what the operation does
and runs on a CPU, and a Triton kernel for a GPU. A few also have a native one for few tokens on a
CPU (`cpu`). On a GPU every operation can be captured in a CUDA graph: lengths and masks are read on
the device, and a launch depends on nothing but shapes.
"""

from __future__ import annotations

from specguide.kernels import (
    cpu,
    delta_rule,
    experts,
    experts_float8,
    float8,
    host_calls,
    int4,
    latent,
    lora,
    peers,
    pointwise,
    reference,
    shares,
    slot_rows,
    triton,
)
from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.delta_rule import (
    DeltaHeads,
    DeltaInputs,
    DeltaPass,
    DeltaState,
    DeltaWeights,
    OpenTokens,
)
from specguide.kernels.delta_shape import StatePart, StateShape, num_rounds
from specguide.kernels.float8 import Float8Rows, Float8Scaling
from specguide.kernels.host_calls import FilledRows, HostCall, KeptRows, TakenRows, Wait
from specguide.kernels.host_values import constant, on_device, write_from_host
from specguide.kernels.int4 import Int4Matrix
from specguide.kernels.latent import LatentNorm, LatentQueries
from specguide.kernels.operation import Operation, operation
from specguide.kernels.peers import Peers
from specguide.kernels.pointwise import ProductScales, gelu_tanh_mul, scaled
from specguide.kernels.sampling_tensors import SamplingTensors
from specguide.kernels.shares import LogitsShare

add_lora = operation(lora.add_lora, lambda: triton.lora.add_lora)
add_rms_norm = operation(
    pointwise.add_rms_norm, lambda: triton.norm.add_rms_norm, lambda: cpu.add_rms_norm
)
add_rms_norm_float8 = operation(float8.add_rms_norm_float8, lambda: triton.norm.add_rms_norm_float8)
apply_bitmask = operation(reference.apply_bitmask, lambda: triton.bitmask.apply_bitmask)
call_host = operation(host_calls.call_host, lambda: triton.host_calls.call_host)
delta_heads = operation(delta_rule.delta_heads, lambda: triton.delta_inputs.delta_heads)
gated_delta_rule = operation(delta_rule.delta_rule, lambda: triton.delta_rule.delta_rule)
expert_parts = operation(experts.expert_parts, lambda: triton.experts.expert_parts)
expert_parts_float8 = operation(
    experts_float8.expert_parts_float8, lambda: triton.experts_float8.expert_parts_float8
)
gated_experts = operation(experts.gated_experts, lambda: triton.experts.gated_experts)
gated_norm = operation(delta_rule.gated_norm, lambda: triton.gates.gated_norm)
gated_experts_float8 = operation(
    experts_float8.gated_experts_float8, lambda: triton.experts_float8.gated_experts_float8
)
gated_linear = operation(pointwise.gated_linear, lambda: triton.linear.gated_linear)
gated_linear_float8 = operation(
    float8.gated_linear_float8, lambda: triton.linear_float8.gated_linear_float8
)
int4_gated_linear = operation(int4.int4_gated_linear, lambda: triton.int4.int4_gated_linear)
int4_linear = operation(int4.int4_linear, lambda: triton.int4.int4_linear)
int4_linear_parts = operation(int4.int4_linear_parts, lambda: triton.int4.int4_linear_parts)
limit_softly = operation(pointwise.limit_softly, lambda: triton.activation.limit_softly)
linear = operation(pointwise.linear, lambda: triton.linear.linear)
linear_float8 = operation(float8.linear_float8, lambda: triton.linear_float8.linear_float8)
linear_float8_parts = operation(
    float8.linear_float8_parts, lambda: triton.linear_float8.linear_float8_parts
)
linear_parts = operation(pointwise.linear_parts, lambda: triton.linear.linear_parts)
masked_argmax = operation(
    reference.masked_argmax, lambda: triton.argmax.masked_argmax, lambda: cpu.masked_argmax
)
masked_argmax_of_shares = operation(
    shares.masked_argmax_of_shares, lambda: triton.shares.masked_argmax_of_shares
)
masked_sample = operation(
    reference.masked_sample, lambda: triton.sample.masked_sample, lambda: cpu.masked_sample
)
masked_top_k = operation(reference.masked_top_k, lambda: triton.top_k.masked_top_k)
norm_into = operation(pointwise.norm_into, lambda: triton.norm.norm_into, lambda: cpu.norm_into)
rms_norm = operation(pointwise.rms_norm, lambda: triton.norm.rms_norm, lambda: cpu.rms_norm)
rms_norm_float8 = operation(float8.rms_norm_float8, lambda: triton.norm.rms_norm_float8)
rope_and_store = operation(
    pointwise.rope_and_store, lambda: triton.rope.rope_and_store, lambda: cpu.rope_and_store
)
rope_and_store_latents = operation(
    latent.rope_and_store_latents, lambda: triton.latent.rope_and_store_latents
)
rotate = operation(pointwise.rotate, lambda: triton.rope.rotate)
route = operation(experts.route, lambda: triton.routing.route)
rows_behind = operation(pointwise.rows_behind, lambda: triton.pick.rows_behind)
sigmoid_mul = operation(delta_rule.sigmoid_mul, lambda: triton.gates.sigmoid_mul)
silu_mul = operation(pointwise.silu_mul, lambda: triton.activation.silu_mul)
silu_mul_float8 = operation(float8.silu_mul_float8, lambda: triton.float8.silu_mul_float8)
sum_over_ranks = operation(peers.sum_over_ranks, lambda: triton.peers.sum_over_ranks)
take_rows = operation(host_calls.take_rows, lambda: triton.host_calls.take_rows)
to_float8 = operation(float8.to_float8, lambda: triton.float8.to_float8)
write_slots = operation(slot_rows.write_slots, lambda: triton.slot_rows.write_slots)

__all__ = [
    "BitmaskRows",
    "DeltaHeads",
    "DeltaInputs",
    "DeltaPass",
    "DeltaState",
    "DeltaWeights",
    "FilledRows",
    "Float8Rows",
    "Float8Scaling",
    "HostCall",
    "Int4Matrix",
    "KeptRows",
    "LatentNorm",
    "LatentQueries",
    "LogitsShare",
    "OpenTokens",
    "Operation",
    "Peers",
    "ProductScales",
    "SamplingTensors",
    "StatePart",
    "StateShape",
    "TakenRows",
    "Wait",
    "add_lora",
    "add_rms_norm",
    "add_rms_norm_float8",
    "apply_bitmask",
    "call_host",
    "constant",
    "delta_heads",
    "expert_parts",
    "expert_parts_float8",
    "gated_delta_rule",
    "gated_experts",
    "gated_experts_float8",
    "gated_linear",
    "gated_linear_float8",
    "gated_norm",
    "gelu_tanh_mul",
    "int4_gated_linear",
    "int4_linear",
    "int4_linear_parts",
    "limit_softly",
    "linear",
    "linear_float8",
    "linear_float8_parts",
    "linear_parts",
    "masked_argmax",
    "masked_argmax_of_shares",
    "masked_sample",
    "masked_top_k",
    "norm_into",
    "num_rounds",
    "on_device",
    "operation",
    "rms_norm",
    "rms_norm_float8",
    "rope_and_store",
    "rope_and_store_latents",
    "rotate",
    "route",
    "rows_behind",
    "scaled",
    "sigmoid_mul",
    "silu_mul",
    "silu_mul_float8",
    "sum_over_ranks",
    "take_rows",
    "to_float8",
    "write_from_host",
    "write_slots",
]
