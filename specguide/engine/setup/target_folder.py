"""Owns how the target's checkpoint is found, and its tokenizer loaded."""

from __future__ import annotations

from pathlib import Path

from specguide.config.resolved import ResolvedConfig
from specguide.tokenizer import Tokenizer

SHIPPED_MODEL = Path(__file__).parents[2] / "assets" / "small"


def target_folder(model: str | Path | None) -> Path:
    """Folder of the target checkpoint; the shipped model where none is named."""
    return SHIPPED_MODEL / "target" if model is None else Path(model)


def load_tokenizer(config: ResolvedConfig) -> Tokenizer:
    """The target's tokenizer. Raises CheckpointError where it cannot be read, and InvalidParams for
    a chat template in its place that is malformed."""
    tokenizer = Tokenizer.from_folder(target_folder(config.model), config.chat_template)
    if config.max_image_tokens:
        most = config.limit_images_per_prompt
        tokenizer.read_images(target_folder(config.model), most, config.dtype)
    tokenizer.detokenizer()  # so that a broken one raises now, not later
    return tokenizer
