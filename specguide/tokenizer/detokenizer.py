"""Owns the text of a growing list of tokens: each token's share of the text, as soon as it is
certain.

This is more than decoding each token, for three reasons. The bytes of a character may be spread
over several tokens. SentencePiece decoders trim the space at the beginning of a text (of the
prompt, not of the output behind it). A run of byte tokens is text only if the whole run is UTF-8
(otherwise each of its bytes is U+FFFD), so it is certain only once it has ended.
`tokenizers.decoders.DecodeStream` gets the last one wrong: it shows the beginning of a run, and
raises or fails when the rest turns out not to be UTF-8.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from specguide.errors import CheckpointError
from specguide.tokenizer.token_bytes import BYTE_TOKEN, byte_level, decoder_steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


class IncrementalDetokenizer(Protocol):
    """The text of one growing list of tokens behind a prompt.

    All texts that `add` returned, followed by that of `flush`, are exactly `Tokenizer.decode` of
    prompt and tokens without the part for the prompt. Not thread-safe.
    """

    def add(self, token: int) -> str:
        """The text that this token makes certain; it is often empty, and never taken back."""

    def flush(self) -> str:
        """The rest, when no more tokens come: U+FFFD for incomplete characters."""


class Detokenizers:
    """Makes a detokenizer for each request; all share their tables.

    Raises CheckpointError for a decoder whose text cannot be known token by token.
    """

    def __init__(self, backend: Backend) -> None:
        steps = decoder_steps(backend)
        kinds = [step["type"] for step in steps]
        fused = steps[kinds.index("Fuse") :] if "Fuse" in kinds else []
        if any(step["type"] == "Strip" and step["stop"] for step in fused):
            raise CheckpointError(
                "the tokenizer's decoder strips the end of a text ('Strip' with 'stop'), which is "
                "not supported: such a text cannot be given token by token"
            )
        self._pieces: dict[bool, _BytePieces | _TextPieces] = {
            skips: _BytePieces(backend, skips)
            if kinds == ["ByteLevel"]
            else _TextPieces(backend, "ByteFallback" in kinds, skips)
            for skips in (True, False)
        }
        """The texts of tokens, by whether special tokens are skipped."""

    def make(
        self, prompt_ids: Sequence[int], *, is_guided: bool, skip_special_tokens: bool
    ) -> IncrementalDetokenizer:
        """See Tokenizer.detokenizer."""
        behind = () if is_guided else prompt_ids
        pieces = self._pieces[skip_special_tokens]
        if isinstance(pieces, _BytePieces):
            byte_level = _ByteLevel(pieces, behind)
            return _behind(byte_level, byte_level.incomplete)
        if is_guided:
            return _SentencePiece(pieces, has_begun=True)
        has_begun, held = pieces.state(behind)
        return _behind(
            _SentencePiece(pieces, has_begun=has_begun, held=held),
            pieces.text(held, has_begun=has_begun),
        )


def _behind(detokenizer: IncrementalDetokenizer, told: str) -> IncrementalDetokenizer:
    return _Untold(detokenizer, told) if told else detokenizer


class _Untold:
    """Text behind a prompt whose end is uncertain. A beginning that repeats `told`, text of the
    prompt that was already shown, is dropped."""

    def __init__(self, detokenizer: IncrementalDetokenizer, told: str) -> None:
        self._detokenizer, self._told = detokenizer, told

    def add(self, token: int) -> str:
        return self._new(self._detokenizer.add(token))

    def flush(self) -> str:
        return self._new(self._detokenizer.flush())

    def _new(self, text: str) -> str:
        pairs = zip(text, self._told, strict=False)
        num_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if text:
            self._told = self._told[num_same:] if num_same == len(text) else ""
        return text[num_same:]


_LONGEST_CHARACTER = 4  # bytes, in UTF-8


class _BytePieces(dict[int, bytes]):
    """Bytes of each token, made when first needed; empty for tokens that a decode skips."""

    def __init__(self, backend: Backend, skips_special: bool) -> None:
        self._backend = backend
        self._skipped = _special_ids(backend) if skips_special else frozenset[int]()

    def __missing__(self, token: int) -> bytes:
        entry = None if token in self._skipped else self._backend.id_to_token(token)
        piece = self[token] = b"" if entry is None else byte_level(entry)
        return piece


class _ByteLevel:
    """The tokens' bytes, decoded as they come. incomplete: bytes at the prompt's end that begin an
    incomplete character"""

    def __init__(self, pieces: _BytePieces, prompt_ids: Sequence[int]) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        end = b""
        for token in reversed(prompt_ids):
            end = pieces[token] + end
            if len(end) >= _LONGEST_CHARACTER:
                break
        self._decoder.decode(end)
        self.incomplete = self._decoder.getstate()[0].decode("utf-8", "replace")

    def add(self, token: int) -> str:
        return self._decoder.decode(self._pieces[token])

    def flush(self) -> str:
        return self._decoder.decode(b"", True)


_SKIPPED, _BYTE = object(), object()


class _TextPieces(dict[int, object]):
    """Text of each token inside a text; `_SKIPPED` if a decode skips it, `_BYTE` for a byte token.

    It is found with the tokenizer's own decoder, behind an anchor: a token from which nothing is
    trimmed.
    """

    def __init__(self, backend: Backend, has_byte_tokens: bool, skips_special: bool) -> None:
        self._backend = backend
        self._skips_special = skips_special
        special_ids = _special_ids(backend)
        self._skipped = special_ids if skips_special else frozenset[int]()
        self._has_byte_tokens = has_byte_tokens
        vocabulary = backend.get_vocab(with_added_tokens=False)
        plain = (
            token
            for entry, token in vocabulary.items()
            if entry.isalnum() and token not in special_ids
        )
        self._anchor = min(plain, default=-1)
        if self._anchor < 0:
            raise CheckpointError("the tokenizer has no token of letters or digits")

    def __missing__(self, token: int) -> object:
        entry = None if token in self._skipped else self._backend.id_to_token(token)
        if entry is None:
            piece: object = _SKIPPED
        else:
            is_byte = self._has_byte_tokens and BYTE_TOKEN.fullmatch(entry)
            piece = _BYTE if is_byte else self._inside([token])
        self[token] = piece
        return piece

    def text(self, tokens: Sequence[int], *, has_begun: bool) -> str:
        """Text of tokens, inside a text that has begun, or at its beginning."""
        return self._inside(tokens) if has_begun else self._whole(tokens)

    def state(self, prompt_ids: Sequence[int]) -> tuple[bool, list[int]]:
        """Whether a prompt has any certain text, and which tokens at its end are held back."""
        end = len(prompt_ids)
        while end and self[prompt_ids[end - 1]] in (_SKIPPED, _BYTE):
            end -= 1
        run = [token for token in prompt_ids[end:] if self[token] is _BYTE]
        num_looked_at = 8
        while not self._whole(prompt_ids[: min(num_looked_at, end)]):
            if num_looked_at >= end:
                return False, [
                    token for token in prompt_ids[:end] if self[token] is not _SKIPPED
                ] + run
            num_looked_at *= 2
        return True, run

    def _inside(self, tokens: Sequence[int]) -> str:
        return self._whole([self._anchor, *tokens])[len(self._whole([self._anchor])) :]

    def _whole(self, tokens: Sequence[int]) -> str:
        return self._backend.decode(list(tokens), skip_special_tokens=self._skips_special)


class _SentencePiece:
    """The tokens' texts. It holds back a run of byte tokens, and all tokens until there is any
    text."""

    def __init__(self, pieces: _TextPieces, *, has_begun: bool, held: Sequence[int] = ()) -> None:
        self._pieces, self._has_begun = pieces, has_begun
        self._held = list(held)

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
        text = self._pieces.text(self._held, has_begun=self._has_begun)
        if text:
            self._has_begun = True
        if self._has_begun:
            self._held.clear()
        return text


def _special_ids(backend: Backend) -> frozenset[int]:
    added: Iterable = backend.get_added_tokens_decoder().items()
    return frozenset(token for token, entry in added if entry.special)
