"""Owns what a prompt may be: a text, or token ids of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams
from specguide.integers import as_ints, is_int
from specguide.tokenizer import Tokenizer


def prompt_list(prompts: Any) -> list[Any]:
    """One prompt's text, or several prompts, as a list; each may still be wrong. Raises
    InvalidParams for what is neither."""
    if isinstance(prompts, str):
        return [prompts]
    if not isinstance(prompts, Iterable) or isinstance(prompts, (Mapping, bytes, bytearray)):
        raise _no_prompt(prompts)
    return list(prompts)


def prompt_ids(prompt: str | Sequence[int], tokenizer: Tokenizer, vocab_size: int) -> list[int]:
    """Its token ids. From any thread. Raises InvalidParams.

    vocab_size: width of the target's logits
    """
    if isinstance(prompt, str):
        prompt = tokenizer.encode(prompt) if prompt else []
    if isinstance(prompt, (Mapping, bytes, bytearray)):
        raise _no_prompt(prompt)
    try:
        ids = as_ints(prompt)
    except TypeError:
        raise _no_prompt(prompt) from None
    if not ids:
        raise InvalidParams("the prompt is empty; give at least one token", param="prompt")
    bad = [token for token in ids if not is_int(token) or not 0 <= token < vocab_size]
    if bad:
        raise InvalidParams(
            f"prompt token {bad[0]!r} is not an id of this model's {vocab_size} tokens",
            param="prompt",
        )
    return ids


def _no_prompt(found: Any) -> InvalidParams:
    what = type(found).__name__
    if isinstance(found, Mapping):
        what += '; give the value of its "prompt" or "prompt_token_ids" alone'
    return InvalidParams(f"a prompt is a text or a list of token ids, found {what}", param="prompt")
