"""Owns which method and model draft: what a SpecConfig means for a target, and how the model is
read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specguide.config import SpecConfig
from specguide.draft_tree import DynamicTree
from specguide.errors import CheckpointError, InvalidParams
from specguide.models import Decoder, Eagle3Head, MtpHead, read_config
from specguide.tokenizer import Tokenizer

DraftModel = Eagle3Head | MtpHead | Decoder
_NUM_FORCED_BY_AUTO = 8


def chosen_method(spec: SpecConfig, target_folder: str | Path | None) -> SpecConfig:
    """Where it is "auto", what it comes to for a target. target_folder: None for the shipped
    model"""
    if spec.method != "auto":
        return spec
    if target_folder is not None and not MtpHead.is_in(target_folder):
        return replace(
            spec, method="suffix", num_forced_tokens=spec.num_forced_tokens or _NUM_FORCED_BY_AUTO
        )
    return replace(
        spec,
        method="mtp" if target_folder is not None else "eagle3",
        tree=None if spec.num_forced_tokens else DynamicTree(),
    )


def load_draft_model(
    spec: SpecConfig, target: Decoder, target_folder: str | Path | None, shipped: Path
) -> DraftModel:
    """The drafter of `spec` for a loaded target.

    target_folder: its folder; None for the shipped model
    shipped:       folder of the shipped model, with its heads

    Raises CheckpointError where the two do not fit, and InvalidParams where a folder must be named
    and is not.
    """
    if spec.method == "mtp":  # published in the target's own folder
        return MtpHead.load(spec.model or target_folder or shipped / "mtp", target)
    if spec.method == "eagle3":
        return Eagle3Head.load(spec.model or shipped / "eagle3", target)
    if spec.model is None:
        raise InvalidParams(
            "speculation by 'draft_model' needs the folder of a small model with the target's "
            "tokenizer: SpecConfig('draft_model', model=folder)",
            param="spec",
        )
    return _load_small_model(Path(spec.model), target, Path(target_folder or shipped / "target"))


def _load_small_model(folder: Path, target: Decoder, target_folder: Path) -> Decoder:
    """Any dense model. It reads and proposes the target's token ids, so theirs must be the same
    tokens."""
    num_positions = read_config(folder).max_position_embeddings
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
            "differ, the first is "
            f"{first}: {tokens.get(first)!r} here, {target_tokens.get(first)!r} in {target_folder}"
        )
    model = Decoder.load(folder, target.device, target.dtype, max_positions=target.max_positions)
    model.fit_vocabulary(target.config.vocab_size)
    return model


def _tokens(folder: Path) -> dict[int, str]:
    """The tokenizer's entries by id."""
    return {token_id: token for token, token_id in Tokenizer.from_folder(folder).entries().items()}
