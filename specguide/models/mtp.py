"""Owns MtpHead: a multi-token-prediction head in the format of MiMo-7B, DeepSeek or Qwen3-Next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.errors import CheckpointError
from specguide.inputs.json_fields import (
    check_model_folder,
    mapping,
    naming,
    positive_int,
    read_json,
)
from specguide.kernels.attention import OutputRows, PassContext
from specguide.layers.attention import Attention, AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.latent_attention import LatentAttention
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import UNQUANTIZED, ProjectionInput, with_plain_routers
from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.left_aside import MTP_PREFIX
from specguide.models.multimodal import MULTIMODAL
from specguide.models.registry import FAMILIES, read_config
from specguide.models.weights import check_weights, load_weights, stored_names, weight_files

_MODULE = f"{MTP_PREFIX}0."
_NUM_MODULES = ("num_nextn_predict_layers", "mtp_num_hidden_layers")


@dataclass(frozen=True)
class MtpLayout:
    """How a checkpoint stores a head, and in which order its parts are computed.

    prefix:            prefix of the names of its tensors
    token_norm … final_norm: its names for the head's parts
    layer:             its name for the layer, "" or ending with a dot
    is_token_first:    the embedding comes before the hidden state in the input
    reads_normed:      the first step reads the target's hidden state after its final norm
    continues_normed:  a step reads the previous step's output after its final norm
    shared:            copies of the target's embeddings and output matrix, which are ignored
    is_input_plain:    input_proj is not quantized, whatever the layer is: so DeepSeek-V3's, whose
                       configuration does not say it
    """

    prefix: str
    token_norm: str = "token_layernorm"
    hidden_norm: str = "hidden_layernorm"
    input_proj: str = "input_proj"
    final_norm: str = "final_layernorm"
    layer: str = ""
    is_token_first: bool = False
    reads_normed: bool = False
    continues_normed: bool = True
    shared: tuple[str, ...] = ()
    is_input_plain: bool = False

    def stored_as(self, names: Collection[str]) -> MtpLayout:
        """The layout, as the names of the stored tensors tell it."""
        prefix = f"{self.prefix}{self.input_proj}."
        kinds = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        return replace(self, is_input_plain=kinds <= {"weight", "bias"})

    @classmethod
    def of(cls, names: Collection[str], num_layers: int) -> MtpLayout:
        """The layout of a folder's tensors; its target has `num_layers` layers. Raises
        CheckpointError."""
        if any(name.startswith(_MODULE) for name in names):
            return MIMO
        if any(name.startswith(f"{QWEN.prefix}{QWEN.input_proj}.") for name in names):
            return QWEN
        behind = f"model.layers.{num_layers}."
        if any(name.startswith(f"{behind}eh_proj.") for name in names):
            return cls(
                behind,
                token_norm="enorm",
                hidden_norm="hnorm",
                input_proj="eh_proj",
                final_norm="shared_head.norm",
                is_token_first=True,
                reads_normed=True,
                continues_normed=False,
                shared=(f"{behind}embed_tokens.", f"{behind}shared_head.head."),
            )
        raise CheckpointError(
            f"has no tensor '{_MODULE}*', so it holds no MTP head; give the folder of a checkpoint "
            "with one (SpecConfig.model, --head), or use another method of speculation"
        )

    def is_of_others(self, name: str) -> bool:
        """Whether a tensor of this name does not belong to the head."""
        return (
            not name.startswith((MTP_PREFIX, self.prefix))
            or name.startswith(self.shared)
            or name.endswith("rotary_emb.inv_freq")
        )


MIMO = MtpLayout(_MODULE)
QWEN = MtpLayout(
    "mtp.",
    token_norm="pre_fc_norm_embedding",
    hidden_norm="pre_fc_norm_hidden",
    input_proj="fc",
    final_norm="norm",
    layer="layers.0.",
    is_token_first=True,
    reads_normed=True,
)


class MtpHead:
    """One transformer layer that continues the target's hidden states, with the target's embeddings
    and output matrix.

    A draft step at position p reads the hidden state of position p and the embedding of token p +
    1, and computes the hidden state from which token p + 2 is proposed.

    The forward pass is that of the published model code (XiaomiMiMo/MiMo-7B, `MiMoMTPLayers`; the
    idea: DeepSeek-V3, arXiv 2412.19437): input_proj of [hidden_layernorm(hidden),
    token_layernorm(embedding)] in this order, a layer of the target's family, final_layernorm. What
    the code leaves open follows the publisher's vLLM (`mimo_mtp`): the target's hidden state is the
    one before its final norm. This single module drafts all K tokens: from the second step on it
    reads its own output, after final_layernorm, as in vLLM. In DeepSeek's style (`MtpLayout`) the
    target's hidden state is the one after its final norm, and a step reads the previous step's
    output before it, as in vLLM (`deepseek_mtp`). In Qwen3-Next's and Qwen3.5's both are read after
    the norm (`qwen3_next_mtp`), and the layer has grouped-query attention. vLLM also zeroes the
    embedding that is read at position 0, which is left over from another alignment of tokens and
    hidden states; here it is kept, as in the model code.

    config:        the layer's shape; num_layers is 1
    aux_layers:    the aux layers to ask for in the target's `forward`
    target_ids:    None: it proposes any token of the target's vocabulary
    ranks:         the ranks among which its layer is cut: the target's, or one if it cannot be cut
    """

    target_ids: Tensor | None = None

    def __init__(self, config: ModelConfig, target: Decoder, layout: MtpLayout = MIMO) -> None:
        """Uninitialised weights; `load` reads a checkpoint. Raises CheckpointError if head and
        target do not fit."""
        for name, size, target_size in (
            ("hidden size", config.hidden_size, target.config.hidden_size),
            ("vocabulary", config.vocab_size, target.config.vocab_size),
        ):
            if size != target_size:
                raise CheckpointError(
                    f"the MTP head was made for a target with {name} {size}, and the target has "
                    f"{target_size}; give the folder of the head that was trained with this target"
                )
        if len(set(config.sliding_windows)) > 1:
            raise CheckpointError(
                "'layer_types' differ, and config.json does not say which of them the MTP head "
                "has; put its tensors into a folder of their own, with 'layer_types' of one kind"
            )
        self.layout = layout
        self.target_norm = target.norm
        self.config = config.of_one_more_layer()
        self.device = target.device
        self.dtype = target.dtype
        self.aux_layers = (target.config.num_layers,)
        hidden_size = config.hidden_size
        place = Placement(self.device, self.dtype, config.quantization, layout.prefix)
        self.token_norm, self.hidden_norm, self.final_norm = (
            RmsNorm.create(place, name, hidden_size, config.norm)
            for name in (layout.token_norm, layout.hidden_norm, layout.final_norm)
        )
        of_input = replace(place, quantization=UNQUANTIZED) if layout.is_input_plain else place
        self.input_proj = Projection.create(
            of_input, 2 * hidden_size, {layout.input_proj: hidden_size}
        )
        layer = partial(FAMILIES[config.architecture].build_layer, self.config, 0)
        place = replace(place, prefix=place.prefix + layout.layer)
        place = replace(place, ranks=target.ranks).cut_where_possible(layer)
        self.layer = layer(place)
        self.ranks = place.ranks
        self.embedding = target.embedding
        self.lm_head = target.lm_head
        self.rope_table = target.rope_tables.of_head(self.config)

    @classmethod
    def load(
        cls, folder: str | Path, target: Decoder, *, quantization: str | None = None
    ) -> MtpHead:
        """Load from the target's own folder, or from one that contains only the head: config.json
        and safetensors.

        The head's tensors are those under `model.mtp_layers.0.` or `mtp.`, or those of the layer
        behind the target's last one if it has `eh_proj`; others are ignored. Raises CheckpointError
        that names what is wrong or does not fit the target and, if the folder contains only the
        head, for an unknown field; InvalidParams for an unknown quantization.

        quantization: one of ONLINE: how the weights are quantized while they are read
        """
        folder = Path(folder)
        check_model_folder(folder)
        files = weight_files(folder)
        names = stored_names(files)
        with naming(folder):
            layout = _layout(read_json(folder / "config.json"), names)
        if quantization is None:
            layout = layout.stored_as(names)
        is_alone = all(name.startswith((MTP_PREFIX, layout.prefix)) for name in names)
        config = read_config(folder, quantization, strict=is_alone)
        config = replace(
            config, quantization=with_plain_routers(config.quantization, lambda: names)
        )
        with naming(folder):
            skeleton = cls(config, target.skeleton(target.config), layout)
        check_weights(files, skeleton.destinations(), ignored=layout.is_of_others)
        with naming(folder):
            head = cls(config, target, layout)
        load_weights(files, head.destinations())
        head.layer.attention.prepare()
        return head

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Whether a checkpoint's folder contains a head that `load` accepts."""
        folder = Path(folder)
        try:
            fields = read_json(folder / "config.json")
            _layout(fields, stored_names(weight_files(folder)))
        except CheckpointError:
            return False
        known = FAMILIES.keys() | MULTIMODAL
        return any(name in known for name in map(str, fields.get("architectures") or ()))

    def fuse(self, aux_hidden_states: Tensor) -> Tensor:
        """The target's last hidden states, before its final norm [T, hidden] → features [T,
        hidden]: unchanged, or after that norm."""
        if self.layout.reads_normed:
            return self.target_norm(aux_hidden_states)
        return aux_hidden_states

    def forward(
        self,
        input_ids: Tensor,
        features: Tensor,
        context: PassContext,
        cache: KVCache,
        outputs: OutputRows | None = None,
    ) -> tuple[Tensor, Tensor]:
        """One pass over T positions; stores their keys and values in layer 0 of `cache`.

        input_ids: int32 or int64 [T], the token *after* each position
        features:  the feature of each position [T, hidden], from `fuse` or from this method
        context:   its position_ids are the features' positions
        outputs:   the W tokens whose next features are returned; None: all
        Returns the next positions' features [W, hidden], and the input of `draft_logits` [W,
        hidden].
        """
        hidden, normed, state = self._enter(input_ids, features, context, cache)
        state = state._replace(outputs=outputs)
        hidden, normed = self.layer(hidden, normed, self.final_norm, state)
        return normed if self.layout.continues_normed else hidden, normed

    def store(
        self, input_ids: Tensor, features: Tensor, context: PassContext, cache: KVCache
    ) -> None:
        """Store the keys and values that `forward` would, and compute nothing else."""
        _, normed, state = self._enter(input_ids, features, context, cache)
        attention = self.layer.attention
        assert isinstance(attention, Attention | LatentAttention)  # it has keys
        attention.store(normed, state)

    def _enter(
        self, input_ids: Tensor, features: Tensor, context: PassContext, cache: KVCache
    ) -> tuple[Tensor, ProjectionInput, AttentionState]:
        """The residual stream before the layer, its norm, and the attention's state."""
        rotary = self.rope_table.index_select(0, context.position_ids)
        inputs = torch.empty(
            len(input_ids), 2 * features.shape[-1], dtype=features.dtype, device=features.device
        )
        halves = inputs.chunk(2, dim=-1)
        normed, embeddings = halves[::-1] if self.layout.is_token_first else halves
        self.hidden_norm.into(normed, features)
        self.embedding.norm_into(embeddings, self.token_norm, input_ids)
        hidden = self.input_proj.forward(inputs)
        state = AttentionState(context, rotary, cache.keys[0], cache.values[0])
        return hidden, self.layer.input_norm(hidden), state

    def draft_logits(self, normed: Tensor) -> Tensor:
        """normed [n, hidden], as `forward` returns it → logits [n, vocab_size], in the head's
        dtype."""
        return self.lm_head.forward(normed)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its published name."""
        return merged(
            self.token_norm, self.hidden_norm, self.input_proj, self.layer, self.final_norm
        )


def _layout(fields: Mapping[str, Any], names: Collection[str]) -> MtpLayout:
    """The layout of the head in a folder. Raises CheckpointError unless it has exactly one
    module."""
    fields = mapping(fields, "text_config") or fields
    name = next((name for name in _NUM_MODULES if fields.get(name) is not None), _NUM_MODULES[0])
    num_modules = positive_int(fields, name, 1)
    layout = MtpLayout.of(names, positive_int(fields, "num_hidden_layers"))
    if num_modules > 1:
        raise CheckpointError(
            f"'{name}' is {num_modules}, and only one module, which drafts every "
            f"token, is supported; put the tensors '{layout.prefix}*' into a folder of their own, "
            "and set it to 1 there"
        )
    return layout
