"""Owns Eagle3Parts: what the names of an EAGLE-3 head's tensors say about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count

from specguide.errors import CheckpointError

_FIRST_LAYER = "midlayer."


@dataclass(frozen=True)
class Eagle3Parts:
    """Which of the optional parts a head has, and its number of layers.

    Heads are published with their target's config.json, so the number of layers, and whether
    queries and keys are normalised, are read from the tensors.

    embed_tokens, lm_head: embeddings and output matrix of its own
    d2t, t2d:    the tables of a pruned vocabulary
    fc_bias:     bias of the map that fuses the aux hidden states
    qk_norm:     each query and key head is normalised, as in Qwen3
    mask_hidden: stands for the hidden states of unknown tokens (P-EAGLE)
    """

    embed_tokens: bool = False
    lm_head: bool = True
    d2t: bool = True
    t2d: bool = True
    fc_bias: bool = False
    qk_norm: bool = False
    mask_hidden: bool = False
    num_layers: int = 1

    @property
    def holds_both_matrices(self) -> bool:
        """Whether it has both embeddings and an output matrix, for the same vocabulary."""
        return self.embed_tokens and self.lm_head and not self.d2t

    @classmethod
    def of(cls, names: Collection[str]) -> Eagle3Parts:
        """The parts of a checkpoint with tensors of these names, as `canonical` writes them. Raises
        CheckpointError for a head of an earlier version of EAGLE."""
        if "fc.weight" in names and f"{_FIRST_LAYER}hidden_norm.weight" not in names:
            raise CheckpointError(
                f"'{_FIRST_LAYER}hidden_norm.weight' is missing, as in heads of EAGLE 1 and 2, "
                "which are not supported; give the folder of an EAGLE-3 head"
            )
        return cls(
            embed_tokens="embed_tokens.weight" in names,
            lm_head="lm_head.weight" in names,
            d2t="d2t" in names,
            t2d="t2d" in names,
            fc_bias="fc.bias" in names,
            qk_norm=f"{_FIRST_LAYER}self_attn.q_norm.weight" in names,
            mask_hidden="mask_hidden" in names,
            num_layers=next(
                index for index in count(1) if f"layers.{index}.input_layernorm.weight" not in names
            ),
        )


def canonical(name: str) -> str:
    """The published name of a tensor: some checkpoints prefix `model.`, or write `layers.0.` for
    `midlayer.`."""
    name = name.removeprefix("model.")
    if name.startswith("layers.0."):
        return _FIRST_LAYER + name.removeprefix("layers.0.")
    return name
