"""Owns the trial of a transformers model: a pass on the meta device that records how its layers
attend.

A model that computes something other than expected produces wrong text without any error. So its
config.json is not trusted: its own code runs, with our attention in place of the library's; what it
asks of the attention is recorded, and refused if the paged cache cannot do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from specguide.errors import CheckpointError, UserError

PAGED = "specguide"
"""The name by which transformers knows our attention. It needs no masks: the plan of a pass knows
which tokens see which."""

TRIED = "specguide_trial"
"""The name of the same attention with masks, which show in a trial which tokens see which."""

_PASSED_ON = frozenset({"position_ids", "s_aux", "position_embeddings"})


@dataclass(frozen=True)
class LayerAttention:
    """The attention that a layer asks for.

    window, softcap: see AttentionShape
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    window: int | None
    softcap: float | None


@dataclass(frozen=True)
class SeenMask:
    """Stands for a mask in a trial."""

    window: int | None


class Recorder:
    """Stands for the paged cache in a trial: it records what each layer asks for."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerAttention] = {}

    def attend(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, asked: dict[str, Any]
    ) -> Tensor:
        """Record what is asked for: query [1, heads, T, head_dim] → [1, T, heads, head_dim]. Raises
        CheckpointError for what the paged cache cannot do."""
        layer = getattr(module, "layer_idx", None)
        if not isinstance(layer, int):
            raise CheckpointError(
                "its attention modules have no 'layer_idx', which is the number of their layer"
            )
        if layer in self.layers:
            raise CheckpointError(f"layer {layer} computes attention twice")
        _check_asked(query, value, asked)
        mask = asked["attention_mask"]
        scaling, softcap = asked.get("scaling"), asked.get("softcap")
        self.layers[layer] = LayerAttention(
            num_heads=query.shape[1],
            num_kv_heads=key.shape[1],
            head_dim=query.shape[3],
            scale=query.shape[3] ** -0.5 if scaling is None else float(scaling),
            window=mask.window if isinstance(mask, SeenMask) else None,
            softcap=None if softcap is None else float(softcap),
        )
        return torch.empty_like(query.transpose(1, 2))


def _check_asked(query: Tensor, value: Tensor, asked: dict[str, Any]) -> None:
    if value.shape[-1] != query.shape[-1]:
        raise CheckpointError("values have another size than keys")
    if asked.get("is_causal") is False:
        raise CheckpointError("its attention is not causal")
    odd = [
        name
        for name, it in asked.items()
        if isinstance(it, Tensor) and name not in _PASSED_ON and name != "attention_mask"
    ]
    if odd:
        raise CheckpointError(f"its attention takes {odd[0]!r}, which is unknown here")


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    **asked: Any,
) -> tuple[Tensor, None]:
    """The attention of every transformers model that runs here: `module` holds the object that
    attends."""
    asked["attention_mask"] = attention_mask
    paged: Any = module.paged
    return paged.attend(module, query, key, value, asked), None


def seen_mask(*, mask_function: Callable[..., Any], config: Any, **others: Any) -> SeenMask:
    """The mask that transformers gets in a trial. Raises CheckpointError if it is neither causal
    nor that of a sliding window."""
    num_positions = min(getattr(config, "max_position_embeddings", 0) or 4096, 2**17)
    positions = torch.arange(num_positions)

    def visible(query: int) -> Tensor:
        zero = torch.tensor(0)
        seen = mask_function(zero, zero, torch.tensor(query), positions)
        return torch.as_tensor(seen, device="cpu").expand(num_positions)

    window = int(visible(num_positions - 1).sum())
    samples = (0, 1, window - 1, window, window + 1, num_positions // 2, num_positions - 1)
    for query in {min(max(sample, 0), num_positions - 1) for sample in samples}:
        expected = (positions <= query) & (positions > query - window)
        if not torch.equal(visible(query), expected):
            raise CheckpointError(
                "its attention is neither causal nor that of a sliding window (both directions, "
                "chunks, or a mask of its own)"
            )
    return SeenMask(None if window == num_positions else window)


def register() -> None:
    """Register our attention in transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(PAGED, attention)
    AttentionInterface.register(TRIED, attention)
    AttentionMaskInterface.register(TRIED, seen_mask)


def run_trial(model: Any, base: nn.Module, num_layers: int) -> tuple[LayerAttention, ...]:
    """What each layer of a model on the meta device asks for.

    Raises CheckpointError if it cannot run over the paged cache, or in a captured graph.
    """
    ids = torch.zeros(1, 2, dtype=torch.int64, device="meta")
    masked, paged = Recorder(), Recorder()
    try:
        # A mask is given, since transformers would otherwise look for several sequences in the
        # positions.
        _run(model, base, masked, TRIED, ids, {"attention_mask": torch.ones_like(ids)})
        _run(model, base, paged, PAGED, ids, {"position_ids": ids})
    except UserError:
        raise
    except Exception as error:  # foreign code may raise anything for a tensor without values
        raise CheckpointError(
            "it cannot run without the values of tensors, or not with another implementation of "
            f"attention: {type(error).__name__}: {error}"
        ) from error
    missing = [layer for layer in range(num_layers) if layer not in paged.layers]
    if missing or len(masked.layers) != num_layers:
        raise CheckpointError(
            f"layer {(missing or [0])[0]} does not attend through transformers' attention "
            "interface (linear attention, a state space, or attention of its own)"
        )
    layers = tuple(masked.layers[layer] for layer in range(num_layers))
    if len({(it.num_kv_heads, it.head_dim) for it in layers}) > 1:
        raise CheckpointError("its layers have keys of different sizes")
    return layers


def _run(
    model: Any,
    base: nn.Module,
    recorder: Recorder,
    name: str,
    ids: Tensor,
    others: dict[str, Tensor],
) -> None:
    model.set_attn_implementation(name)
    for module in model.modules():
        module.paged = recorder
    with torch.inference_mode():
        base(input_ids=ids, use_cache=False, **others)
