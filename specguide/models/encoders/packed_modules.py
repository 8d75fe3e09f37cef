"""Owns what runs in place of modules of encoders that put all images into one sequence (Qwen's):
attention within parts of it, norms and products in one kernel each."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import pad, scaled_dot_product_attention

from specguide import kernels

_ATTENTION_NAME: Final = "specguide_flash"
"""transformers computes the longest part for attention with "flash" in its name."""
_WIDTH_MULTIPLE: Final = 64
"""Products of other widths run without the tensor cores' best kernels, at a third of the speed."""


def replace_modules(encoder: Any) -> None:
    """Let an encoder run the functions of this file: the same results but for rounding."""
    encoder.config._attn_implementation = _ATTENTION_NAME
    for module in encoder.modules():
        name = type(module).__name__
        if name.endswith("VisionAttention"):
            module.forward = partial(_attention, module)
        elif name.endswith("RMSNorm"):
            module.forward = partial(_rms_norm, module)
        elif hasattr(module, "gate_proj"):
            _widen(module)


def rounded_bounds(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments of an encoder's block, with a number of parts and a longest part that are powers of
    two: empty parts behind the others, and a bound above the longest change nothing.

    cu_seqlens: int32 [parts + 1], as in `_attention`
    max_seqlen: int; not all versions of transformers have it
    """
    bounds = arguments["cu_seqlens"]
    num_parts = len(bounds) - 1
    empty = bounds[-1:].expand(_power_of_two(num_parts) - num_parts)
    longest = arguments.get("max_seqlen") or int(bounds.diff().max())
    return {
        **arguments,
        "cu_seqlens": torch.cat([bounds, empty]),
        "max_seqlen": _power_of_two(longest),
    }


def _power_of_two(number: int) -> int:
    """The least one from a number on."""
    return 1 << (number - 1).bit_length()


def _attention(
    module: Any,
    hidden_states: Tensor,
    cu_seqlens: Tensor,
    position_embeddings: tuple[Tensor, Tensor],
    max_seqlen: int | None = None,
    **_: Any,
) -> Tensor:
    """Attention in both directions within each part of a sequence of T tokens, as a block of
    transformers calls it.

    hidden_states:       [T, D]
    cu_seqlens:          int32 [parts + 1]; part p has the tokens from entry p to before entry p + 1
    position_embeddings: cosine and sine of each token's angles, [T, head_dim]
    max_seqlen:          tokens of the longest part, or more
    Returns [T, D].
    """
    heads = module.qkv(hidden_states).unflatten(-1, (3 * module.num_heads, -1))
    cos, sin = position_embeddings
    low, high = sin.chunk(2, dim=-1)
    rotary = torch.stack((cos, torch.cat((-low, high), dim=-1)), dim=1)[:, :, None]
    turned = kernels.rotate(heads[:, : 2 * module.num_heads], rotary.to(heads.dtype))
    query, key = turned.chunk(2, dim=1)
    value = heads[:, 2 * module.num_heads :]
    output = _within_parts(query, key, value, cu_seqlens, max_seqlen, module.scaling)
    return module.proj(output.flatten(1))


def _within_parts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bounds: Tensor,
    longest: int | None,
    scale: float,
) -> Tensor:
    """Attention of heads [T, heads, head_dim]."""
    if query.is_cuda and query.dtype != torch.float32:
        bounds = bounds.int()
        assert longest is not None  # by rounded_bounds
        output, *_rest = torch.ops.aten._flash_attention_forward(
            query, key, value, bounds, bounds, longest, longest, 0.0, False, False, scale=scale
        )
        return output
    lens = bounds.diff().tolist()
    heads = [tensor.transpose(0, 1)[None].split(lens, dim=2) for tensor in (query, key, value)]
    parts = zip(*heads, strict=True)
    made = [scaled_dot_product_attention(q, k, v, scale=scale) for q, k, v in parts]
    return torch.cat(made, dim=2)[0].transpose(0, 1)


def _rms_norm(module: Any, x: Tensor) -> Tensor:
    return kernels.rms_norm(x, module.weight, module.variance_epsilon)


def _widen(layer: Any) -> None:
    """Give a gated layer a width that products like, by outputs that are zero and count nothing."""
    added = -layer.gate_proj.out_features % _WIDTH_MULTIPLE
    for projection in (layer.gate_proj, layer.up_proj):
        projection.weight = _padded(projection.weight, 0, 0, 0, added)
        if projection.bias is not None:
            projection.bias = _padded(projection.bias, 0, added)
    layer.down_proj.weight = _padded(layer.down_proj.weight, 0, added)


def _padded(parameter: Tensor, *amounts: int) -> Parameter:
    return Parameter(pad(parameter, amounts), requires_grad=False)
