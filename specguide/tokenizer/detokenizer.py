"""Owns the text of a token list that grows: each token's share of it, as soon as it is certain.

What makes it more than a decode of each token: a character's bytes may be spread over tokens, SentencePiece decoders
trim the space that a text begins with, and a run of byte tokens is text only if the whole run is UTF-8 (otherwise each
byte of it is U+FFFD), so that a run is certain only once it has ended. `tokenizers.decoders.DecodeStream` gets the
latter wrong: it shows the beginning of a run, and raises or goes astray when the rest turns out not to be UTF-8.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from specguide.errors import CheckpointError
from specguide.tokenizer.token_bytes import BYTE_TOKEN, byte_level, decoder_steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


class IncrementalDetokenizer(Protocol):
    """The text of one growing list of tokens.

    All that `add` returned and then `flush` make exactly `Tokenizer.decode` of all tokens. Not for several threads.
    """

    def add(self, token: int) -> str:
        """What this token makes certain of the text; often empty, never to be taken back."""

    def flush(self) -> str:
        """The rest, where no more tokens come: U+FFFD for characters that were left incomplete."""


def detokenizers(backend: Backend) -> Callable[[], IncrementalDetokenizer]:
    """What makes one for each request; tables are shared.

    Raises CheckpointError for a decoder whose text cannot be known token by token.
    """
    steps = decoder_steps(backend)
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        pieces = _BytePieces(backend)
        return lambda: _ByteLevel(pieces)
    fused = steps[kinds.index("Fuse"):] if "Fuse" in kinds else []
    if any(step["type"] == "Strip" and step["stop"] for step in fused):
        raise CheckpointError("the tokenizer's decoder trims the end of a text, which cannot be given token by token")
    texts = _TextPieces(backend, "ByteFallback" in kinds)
    return lambda: _SentencePiece(texts)


class _BytePieces(dict[int, bytes]):
    """Bytes of each token, made when first asked for; empty for tokens that a decode skips."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._special_ids = backend, _special_ids(backend)

    def __missing__(self, token: int) -> bytes:
        entry = None if token in self._special_ids else self._backend.id_to_token(token)
        piece = self[token] = b"" if entry is None else byte_level(entry)
        return piece


class _ByteLevel:
    """The tokens' bytes, decoded as they come."""

    def __init__(self, pieces: _BytePieces) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        return self._decoder.decode(self._pieces[token])

    def flush(self) -> str:
        return self._decoder.decode(b"", True)


_SKIPPED, _BYTE = object(), object()


class _TextPieces(dict[int, object]):
    """Text of each token inside a text; `_SKIPPED` where a decode skips it, `_BYTE` for a byte token.

    The tokenizer's own decoder says what they are, asked behind an anchor: a token that nothing is trimmed from.
    """

    def __init__(self, backend: Backend, has_byte_tokens: bool) -> None:
        self._backend, self._special_ids, self._has_byte_tokens = backend, _special_ids(backend), has_byte_tokens
        vocabulary = backend.get_vocab(with_added_tokens=False)
        plain = (token for entry, token in vocabulary.items() if entry.isalnum() and token not in self._special_ids)
        self._anchor = min(plain, default=-1)
        if self._anchor < 0:
            raise CheckpointError("the tokenizer has no token of letters or digits")

    def __missing__(self, token: int) -> object:
        entry = None if token in self._special_ids else self._backend.id_to_token(token)
        if entry is None:
            piece: object = _SKIPPED
        else:
            is_byte = self._has_byte_tokens and BYTE_TOKEN.fullmatch(entry)
            piece = _BYTE if is_byte else self.inside([token])
        self[token] = piece
        return piece

    def inside(self, tokens: Sequence[int]) -> str:
        """Text of tokens inside a text."""
        return self.whole([self._anchor, *tokens])[len(self.whole([self._anchor])):]

    def whole(self, tokens: Sequence[int]) -> str:
        """Text of tokens with which a text begins."""
        return self._backend.decode(list(tokens), skip_special_tokens=True)


class _SentencePiece:
    """The tokens' texts. Held back: a run of byte tokens, and all tokens until there is any text."""

    def __init__(self, pieces: _TextPieces) -> None:
        self._pieces, self._has_begun = pieces, False
        self._held: list[int] = []

    def add(self, token: int) -> str:
        piece = self._pieces[token]
        if piece is _SKIPPED:
            return ""
        if isinstance(piece, str) and self._has_begun and not self._held:
            return piece
        self._held.append(token)
        return "" if piece is _BYTE else self._release()

    def flush(self) -> str:
        return self._release()

    def _release(self) -> str:
        text = (self._pieces.inside if self._has_begun else self._pieces.whole)(self._held)
        if text:
            self._has_begun = True
        if self._has_begun:
            self._held.clear()
        return text


def _special_ids(backend: Backend) -> frozenset[int]:
    added: Iterable = backend.get_added_tokens_decoder().items()
    return frozenset(token for token, entry in added if entry.special)
