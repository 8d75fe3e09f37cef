"""Owns which tokens end an answer, as the files of a folder state them."""

from __future__ import annotations

from pathlib import Path

from specguide.inputs.json_fields import naming, token_ids
from specguide.tokenizer.transformers_tokenizer import read_if_there


def end_tokens(folder: Path, own: int | None) -> tuple[int, ...]:
    """The end tokens of generation_config.json, else config.json, and the tokenizer's own. Raises
    CheckpointError.

    own: the tokenizer's end token; if its file states none, it is only the default of its class
    """
    stated = _stated_eos(folder) or ()
    if own is None or (stated and not _is_stated(folder, own)):
        return stated
    return tuple(dict.fromkeys((*stated, own)))


def _is_stated(folder: Path, eos: int) -> bool:
    """Whether tokenizer_config.json states an end token that the model has."""
    config = read_if_there(folder / "config.json")
    text = config.get("text_config")
    vocab_size = (text if isinstance(text, dict) else config).get("vocab_size", eos + 1)
    is_of_model = type(vocab_size) is int and eos < vocab_size
    has_token = bool(read_if_there(folder / "tokenizer_config.json").get("eos_token"))
    return is_of_model and has_token


def _stated_eos(folder: Path) -> tuple[int, ...] | None:
    for name in ("generation_config.json", "config.json"):
        config = read_if_there(folder / name)
        with naming(folder / name):
            eos = token_ids(config, "eos_token_id")
        if eos is not None:
            return eos
    return None
