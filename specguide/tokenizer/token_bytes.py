"""Owns the exact bytes of a vocabulary's entries, as the tokenizer's own decoder writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from specguide.errors import CheckpointError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

# The steps of a SentencePiece decoder; Strip and Fuse act on whole texts, not on tokens.
_SENTENCEPIECE_STEPS = {"Replace", "ByteFallback", "Metaspace", "Fuse", "Strip"}
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
"""An entry that stands for one byte."""


def token_bytes(backend: Backend, size: int, special_ids: frozenset[int]) -> tuple[bytes, ...]:
    """Bytes of the ids 0 … size - 1.

    They are empty for `special_ids`, for tokens that the tokenizer marks as special or as unknown,
    and for ids without a token. An added token that is not special is text, which the decoder
    spells like any other; one whose id is out of range is left out: the model was not made for it.
    Raises CheckpointError if the decoder is neither byte-level nor of the SentencePiece kind, or if
    the id of any other token is out of range.
    """
    to_bytes = _entry_decoder(backend)
    added = backend.get_added_tokens_decoder()
    unknown = getattr(backend.model, "unk_token", None)
    table = [b""] * size
    for token, token_id in backend.get_vocab(with_added_tokens=True).items():
        if token_id >= size and token_id in added:
            continue
        if token_id >= size:
            raise CheckpointError(
                f"the tokenizer has the token id {token_id} ({token!r}), but the model has only "
                f"{size} ids: use the tokenizer of the model"
            )
        is_special = token_id in special_ids or (token_id in added and added[token_id].special)
        if not is_special and token != unknown:
            table[token_id] = to_bytes(token)
    return tuple(table)


def _entry_decoder(backend: Backend) -> Callable[[str], bytes]:
    """The function that turns a vocabulary entry into its bytes, as the tokenizer's decoder does.
    Raises CheckpointError for an unknown decoder."""
    steps = decoder_steps(backend)
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return byte_level
    if not kinds or not set(kinds) <= _SENTENCEPIECE_STEPS:
        raise CheckpointError(
            f"the tokenizer's decoder ({', '.join(kinds) or 'none'}) is neither byte-level nor of "
            "the SentencePiece kind, and so not supported: the bytes of its tokens are not known"
        )
    if "Strip" in kinds and "Fuse" not in kinds[: kinds.index("Strip")]:
        raise CheckpointError(
            "the tokenizer's decoder strips tokens before it fuses them, which is not supported: "
            "their bytes are not known"
        )
    replacements = [
        _replacement(step) for step in steps if step["type"] in ("Replace", "Metaspace")
    ]
    byte_fallback = "ByteFallback" in kinds

    def sentencepiece(token: str) -> bytes:
        byte = BYTE_TOKEN.fullmatch(token) if byte_fallback else None
        if byte:
            return bytes([int(byte[1], 16)])
        for old, new in replacements:
            token = token.replace(old, new)
        return token.encode()

    return sentencepiece


def decoder_steps(backend: Backend) -> list[dict[str, Any]]:
    """The steps of the tokenizer's decoder, each with its `type`."""
    if backend.decoder is None:
        return []
    state = json.loads(backend.decoder.__getstate__())
    return state["decoders"] if state["type"] == "Sequence" else [state]


def _replacement(step: dict[str, Any]) -> tuple[str, str]:
    if step["type"] == "Metaspace":
        return step["replacement"], " "
    pattern = step["pattern"].get("String")
    if pattern is None:
        raise CheckpointError(
            f"the tokenizer's decoder replaces {step['pattern']}, which is not supported: only a "
            "plain string is"
        )
    return pattern, step["content"]


def byte_level(token: str) -> bytes:
    """The bytes in GPT-2's spelling; an entry with any other character stands for its own text."""
    alphabet = _byte_alphabet()
    try:
        return bytes([alphabet[char] for char in token])
    except KeyError:
        return token.encode()


@cache
def _byte_alphabet() -> dict[str, int]:
    """The character for each byte: the byte itself if it is printable in Latin-1, else the next
    unused one from U+0100 on."""
    printable = {
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    }
    spare = iter(range(0x100, 0x200))
    return {chr(byte) if byte in printable else chr(next(spare)): byte for byte in range(256)}
