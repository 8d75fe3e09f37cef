"""Owns drafting with a small model that has the target's tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specguide.cache import KVCache
from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder, load_decoder, read_config
from specguide.slots import SlotTable
from specguide.speculation.drafters.base import DrafterSpec, DraftTarget
from specguide.speculation.forward_input import ForwardInput, chain_input
from specguide.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class ModelDrafter:
    """A small model with the target's vocabulary. It reads only tokens, no hidden states.

    It computes the keys of prompts from the same chunks as the target. When decoding, one pass
    takes the first node and the target's token after each node, which is one position further than
    the target's pass: the accepted tokens and the golden one. So the keys of all tokens up to the
    golden one exist, each made only from verified tokens. That holds even where all drafts were
    accepted, the last of which the model has never read, and where all but the last token of a
    prompt was cached. Keys behind the golden token are written again before they are read.
    """

    model: Decoder
    cache: KVCache
    state: SlotTable
    aux_layers: tuple[int, ...] = ()
    target_ids: None = None
    position_offset: int = 0

    def refresh(
        self,
        inputs: ForwardInput,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
    ) -> tuple[Tensor, Tensor]:
        if not inputs.is_chain:  # a prefill
            self._forward(inputs)
        first = inputs.input_ids[inputs.first_node, None].int()
        tokens = torch.cat([first, inputs.tokens_after(target_tokens)], dim=1)
        start = inputs.start.clamp(min=0)  # -1 for an empty request that pads a prefill
        chain = chain_input(self.state, tokens, start, inputs.slots)
        normed = self._forward(chain)[chain.first_node + 1 + num_accepted.clamp(min=0)]
        return normed, normed

    def step(self, inputs: ForwardInput, features: Tensor) -> tuple[Tensor, Tensor]:
        normed = self._forward(inputs)
        return normed, normed

    def draft_logits(self, normed: Tensor) -> Tensor:
        return self.model.logits(normed)

    def _forward(self, inputs: ForwardInput) -> Tensor:
        normed, _ = self.model.forward(inputs.input_ids, inputs.context, self.cache)
        return normed


def _load(spec: SpecConfig, target: DraftTarget) -> Decoder:
    if spec.model is None:
        raise InvalidParams(
            "speculation by 'draft_model' needs the folder of a small model with the target's "
            "tokenizer: SpecConfig('draft_model', model=folder), on the command line --head FOLDER",
            param="spec",
        )
    folder = Path(target.folder or target.shipped / "target")
    return _load_small_model(Path(spec.model), spec.quantization, target.model, folder)


def _propose(model: Any, cache: KVCache | None, table: SlotTable) -> ModelDrafter:
    assert cache is not None
    return ModelDrafter(model, cache, table)


def _load_small_model(
    folder: Path, quantization: str | None, target: Decoder, target_folder: Path
) -> Decoder:
    """Load a small model of any dense family. It reads and proposes the target's token ids, so
    equal ids must be equal tokens."""
    config = read_config(folder)
    if config.linear is not None:
        raise CheckpointError(
            f"{folder}: a model with linear attention ({config.architecture}) cannot be a draft "
            "model: take one whose layers all store keys"
        )
    num_positions = config.max_position_embeddings
    if num_positions < target.max_positions:
        raise CheckpointError(
            f"{folder}: the draft model has {num_positions} positions and the engine serves "
            f"{target.max_positions}; set max_model_len to {num_positions} or less"
        )
    tokens, target_tokens = (_tokens(place) for place in (folder, target_folder))
    differing = [
        token
        for token in sorted(tokens.keys() | target_tokens.keys())
        if tokens.get(token) != target_tokens.get(token)
    ]
    if differing:
        first = differing[0]
        raise CheckpointError(
            f"{folder}: a draft model needs the tokenizer of its target; {len(differing)} ids "
            f"differ, the first is {first}: {tokens.get(first)!r} here, "
            f"{target_tokens.get(first)!r} in {target_folder}"
        )
    model = load_decoder(
        folder,
        target.device,
        target.dtype,
        max_positions=target.max_positions,
        quantization=quantization,
    )
    model.fit_vocabulary(target.config.vocab_size)
    return model


def _tokens(folder: Path) -> dict[int, str]:
    """The tokenizer's entries by id."""
    return {token_id: token for token, token_id in Tokenizer.from_folder(folder).entries().items()}


DRAFTER = DrafterSpec(method_named("draft_model"), load=_load, propose=_propose)
