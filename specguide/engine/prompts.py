"""Owns what a prompt may be: a text, or token ids of the model."""

from __future__ import annotations

from collections.abc import Sequence

from specguide.errors import InvalidParams
from specguide.integers import as_ints, is_int
from specguide.tokenizer import Tokenizer


def prompt_ids(prompt: str | Sequence[int], tokenizer: Tokenizer, vocab_size: int) -> list[int]:
    """Its token ids. From any thread. Raises InvalidParams.

    vocab_size: width of the target's logits
    """
    if isinstance(prompt, str):
        prompt = tokenizer.encode(prompt) if prompt else []
    try:
        ids = as_ints(prompt)
    except TypeError:
        raise InvalidParams(
            f"a prompt is a text or a list of token ids, found {type(prompt).__name__}",
            param="prompt",
        ) from None
    if not ids:
        raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
    bad = [token for token in ids if not is_int(token) or not 0 <= token < vocab_size]
    if bad:
        raise InvalidParams(
            f"prompt token {bad[0]!r} is not an id of this model's {vocab_size} tokens",
            param="prompt",
        )
    return ids
