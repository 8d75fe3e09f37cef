"""Owns MtpHead: a dense multi-token-prediction head in the format in which MiMo-7B's is
published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.errors import CheckpointError
from specguide.json_fields import check_folder, naming, positive_int, read_json
from specguide.kernels.attention import PassContext
from specguide.layers.attention import AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.models.config import ModelConfig
from specguide.models.decoder import MTP_PREFIX, Decoder
from specguide.models.registry import FAMILIES, read_config
from specguide.models.weights import check_weights, load_weights, stored_names, weight_files

_MODULE = f"{MTP_PREFIX}0."


class MtpHead:
    """One transformer layer that continues the target's hidden states, with the target's embeddings
    and output matrix.

    A draft step at position p reads the hidden state of position p beside the embedding of token p
    + 1, and gives the hidden state from which token p + 2 is proposed.

    The forward pass is that of the published model code (XiaomiMiMo/MiMo-7B, `MiMoMTPLayers`; the
    idea: DeepSeek-V3, arXiv 2412.19437): input_proj of [hidden_layernorm(hidden),
          token_layernorm(embedding)] in this order, a layer of
    the target's family, final_layernorm. What the code leaves open follows the publisher's vLLM
    (`mimo_mtp`): the target's hidden state is the one before its final norm. The one module drafts
    all K tokens: from the second step on it reads its own output, after final_layernorm, as vLLM
    does it. vLLM also zeroes the embedding that is read at position 0, a leftover of another
    alignment of tokens and hidden states; it is kept here, as in the model code.

    config:        the layer's shape; num_layers is 1
    aux_layers: what the target's `forward` is to be asked for
    target_ids:    None: it proposes any token of the target's vocabulary
    """

    target_ids: Tensor | None = None

    def __init__(self, config: ModelConfig, target: Decoder) -> None:
        """Uninitialised weights; `load` reads a checkpoint. Raises CheckpointError where the two do
        not fit."""
        for name, size, target_size in (
            ("hidden size", config.hidden_size, target.config.hidden_size),
            ("vocabulary", config.vocab_size, target.config.vocab_size),
        ):
            if size != target_size:
                raise CheckpointError(
                    f"the MTP head is for a target of {name} {size}, the target has {target_size}; "
                    "name the folder of the head that was trained with it"
                )
        if len(set(config.sliding_windows)) > 1:
            raise CheckpointError(
                "'sliding_window' differs from layer to layer, and nothing says which window the "
                "MTP "
                "head has; put its tensors into a folder of their own with 'layer_types' of one "
                "kind"
            )
        self.config = replace(config, num_layers=1, sliding_windows=config.sliding_windows[:1])
        self.device = target.device
        self.dtype = target.dtype
        self.aux_layers = (target.config.num_layers,)
        hidden_size = config.hidden_size
        place = Placement(self.device, self.dtype, config.quantization, _MODULE)
        self.token_norm, self.hidden_norm, self.final_norm = (
            RmsNorm.create(place, name, hidden_size, config.norm)
            for name in ("token_layernorm", "hidden_layernorm", "final_layernorm")
        )
        self.input_proj = Projection.create(place, 2 * hidden_size, {"input_proj": hidden_size})
        self.layer = FAMILIES[config.architecture].build_layer(self.config, 0, place)
        self.embedding = target.embedding
        self.lm_head = target.lm_head
        self.rope_table = target.rope_table_for(self.config)

    @classmethod
    def load(
        cls, folder: str | Path, target: Decoder, *, quantization: str | None = None
    ) -> MtpHead:
        """From the target's own folder, or from one that holds the head alone: config.json and
        safetensors.

        The tensors are those under `model.mtp_layers.0.`, others are left aside. Raises
        CheckpointError that names what is wrong, or does not fit the target, and where the folder
        holds the head alone, for a field that is unknown; InvalidParams for an unknown
        quantization.

        quantization: of ONLINE: what the weights are turned into as they are read
        """
        folder = Path(folder)
        check_folder(folder)
        files = weight_files(folder)
        names = stored_names(files)
        is_alone = all(name.startswith(MTP_PREFIX) for name in names)
        config = read_config(folder, quantization, strict=is_alone)
        stated = read_json(folder / "config.json")
        with naming(folder):
            _check_modules(positive_int(stated, "num_nextn_predict_layers", 1), names)
            skeleton = cls(config, target.skeleton(target.config))
        check_weights(
            files,
            skeleton.destinations(),
            ignored=lambda name: (
                not name.startswith(MTP_PREFIX) or name.endswith("rotary_emb.inv_freq")
            ),
        )
        with naming(folder):
            head = cls(config, target)
        load_weights(files, head.destinations())
        return head

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """True where a checkpoint's folder holds a head as `load` takes it."""
        folder = Path(folder)
        try:
            num_modules = positive_int(
                read_json(folder / "config.json"), "num_nextn_predict_layers", 1
            )
            _check_modules(num_modules, stored_names(weight_files(folder)))
        except CheckpointError:
            return False
        return True

    def fuse(self, aux_hidden_states: Tensor) -> Tensor:
        """The target's last hidden states, before its final norm [T, hidden] → features [T,
        hidden]: the same."""
        return aux_hidden_states

    def forward(
        self, input_ids: Tensor, features: Tensor, context: PassContext, cache: KVCache
    ) -> tuple[Tensor, Tensor]:
        """One pass over T positions; stores their keys and values in layer 0 of `cache`.

        input_ids: int32 or int64 [T], the token *after* each position
        features:  [T, hidden], of each position, from `fuse` or from this method
        context:   its position_ids are the features' positions
        Returns the next positions' features [T, hidden], twice: `draft_logits` takes the same.
        """
        rotary = self.rope_table.index_select(0, context.position_ids)
        inputs = torch.empty(
            len(input_ids), 2 * features.shape[-1], dtype=features.dtype, device=features.device
        )
        normed, embeddings = inputs.chunk(2, dim=-1)
        self.hidden_norm.into(normed, features)
        self.embedding.norm_into(embeddings, self.token_norm, input_ids)
        hidden = self.input_proj.forward(inputs)
        state = AttentionState(context, rotary, cache.keys[0], cache.values[0])
        _, normed = self.layer(hidden, self.layer.input_norm(hidden), self.final_norm, state)
        return normed, normed

    def draft_logits(self, normed: Tensor) -> Tensor:
        """[n, hidden] as `forward` returns it → [n, vocab_size], in the head's dtype."""
        return self.lm_head.forward(normed)

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its published name."""
        return merged(
            self.token_norm, self.hidden_norm, self.input_proj, self.layer, self.final_norm
        )


def _check_modules(num_modules: int, names: set[str]) -> None:
    """Raise CheckpointError unless there is one module, and it is there."""
    if not any(name.startswith(_MODULE) for name in names):
        raise CheckpointError(
            f"holds no tensor '{_MODULE}*'; name the folder of a checkpoint with an MTP head "
            "(SpecConfig.model, --head), or another method of speculation"
        )
    if num_modules > 1:
        raise CheckpointError(
            f"'num_nextn_predict_layers' {num_modules}: one module that drafts every token is "
            f"supported; put the tensors '{_MODULE}*' into a folder of their own and state 1 there"
        )
