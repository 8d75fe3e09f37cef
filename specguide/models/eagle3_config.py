"""Owns Eagle3Config: what the config.json of an EAGLE-3 head says, in all spellings in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int
from specguide.models.config import ModelConfig
from specguide.models.eagle3_aux_layers import stated_layers, tapped_layers
from specguide.models.eagle3_fields import (
    KNOWN,
    check_kind,
    check_variant,
    flat,
    mask_token,
    sliding_windows,
)
from specguide.models.eagle3_parts import Eagle3Parts
from specguide.models.multimodal import rope_of_text
from specguide.models.registry import config_of


@dataclass(frozen=True)
class Eagle3Norms:
    """The norms of a head besides those of its layers; the last three are EAGLE-3.1's.

    before_residual: the residual of the first layer is the normed feature (`norm_before_residual`)
    last:            a norm before the output matrix (`use_last_layernorm`)
    joint:           one over all aux hidden states together (`norm_before_fc`)
    each:            one over each aux hidden state (`fc_norm`)
    output:          a step continues the last norm's output, not its input (`norm_output`)
    """

    before_residual: bool
    last: bool
    joint: bool
    each: bool
    output: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Eagle3Norms:
        """Read the norms from a flattened config.json. Raises CheckpointError."""
        return cls(
            before_residual=flag(config, "norm_before_residual"),
            last=flag(config, "use_last_layernorm", default=True),
            joint=flag(config, "norm_before_fc"),
            each=flag(config, "fc_norm"),
            output=flag(config, "norm_output"),
        )


@dataclass(frozen=True)
class Eagle3Config:
    """The configuration of an EAGLE-3 head.

    layer:                its transformer layers; layer.vocab_size is the target's
    draft_vocab_size:     number of tokens that it can propose
    target_hidden_size:   size of the target's hidden states, which it reads
    norms:                its norms besides those of its layers
    tie_word_embeddings:  if it has no output matrix, it uses its embeddings' matrix
    stated_layers:        the aux layers as `Decoder.forward` counts them (a layer's input),
                          negative ones from the end; None: the default
    mask_token_id:        the id that a P-EAGLE head reads in place of an unknown token; None for
                          other heads
    """

    layer: ModelConfig
    draft_vocab_size: int
    target_hidden_size: int
    norms: Eagle3Norms
    tie_word_embeddings: bool
    stated_layers: tuple[int, ...] | None
    mask_token_id: int | None = None

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], parts: Eagle3Parts | None = None) -> Eagle3Config:
        """Read the contents of config.json. Raises CheckpointError, also for an unknown field.

        parts: what the tensors say; None: the parts of the head as first published
        """
        parts = parts or Eagle3Parts()
        check_kind(config)
        layers = stated_layers(config)
        config = flat(config)
        check_variant(config, parts)
        layer = config_of(_layer_fields(config, parts), known=KNOWN, strict=True)
        draft_vocab_size = positive_int(config, "draft_vocab_size", layer.vocab_size)
        if draft_vocab_size > layer.vocab_size:
            raise CheckpointError(
                f"'draft_vocab_size' {draft_vocab_size} is more than 'vocab_size' "
                f"{layer.vocab_size}"
            )
        return cls(
            layer=replace(
                layer,
                qk_norm=parts.qk_norm,
                sliding_windows=sliding_windows(config, parts.num_layers),
            ),
            draft_vocab_size=draft_vocab_size,
            target_hidden_size=positive_int(config, "target_hidden_size", layer.hidden_size),
            norms=Eagle3Norms.of(config),
            tie_word_embeddings=layer.tie_word_embeddings,
            stated_layers=layers,
            mask_token_id=mask_token(config, parts, layer.vocab_size),
        )

    def aux_layers(self, num_target_layers: int) -> tuple[int, ...]:
        """The aux layers in the target; raises CheckpointError if it has no such layers."""
        return tapped_layers(self.stated_layers, num_target_layers)


def _layer_fields(config: Mapping[str, Any], parts: Eagle3Parts) -> dict[str, Any]:
    """The fields that a Llama states. The architecture is not read: heads are published under their
    target's architecture, whose rope may have three positions."""
    ropes = ("rope_scaling", "rope_parameters")
    return {
        **config,
        **{name: rope_of_text(mapping(config, name)) for name in ropes if name in config},
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": parts.num_layers,
        "sliding_window": None,
        "layer_types": None,
    }
