"""Owns Vocabulary: what a grammar must know of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specguide.native import NativeVocabulary


@dataclass(frozen=True)
class Vocabulary:
    """The byte strings that token ids stand for.

    token_bytes:   bytes of each token id; empty for special tokens and for padding ids, which are
                   not text
    eos_token_ids: the end tokens, at least one; accepting one terminates a matcher
    special_ids:   ids of the special tokens that are not end tokens, by their names

    Its length is the model's (padded) vocabulary size, that is, the width of the logits.
    """

    token_bytes: tuple[bytes, ...]
    eos_token_ids: tuple[int, ...]
    special_ids: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.eos_token_ids or not all(
            0 <= token < len(self.token_bytes) for token in self.eos_token_ids
        ):
            raise ValueError(f"a vocabulary needs end tokens among its {len(self.token_bytes)} ids")

    def __len__(self) -> int:
        return len(self.token_bytes)

    def special_id(self, token: int | None) -> int | None:
        """The id itself; None for None, and if its token is text or not one of the model's."""
        if token is None or token >= len(self) or self.token_bytes[token]:
            return None
        return token

    @cached_property
    def names(self) -> dict[int, bytes]:
        """The names of the special tokens that are not end tokens."""
        return {token: name.encode() for name, token in self.special_ids.items()}

    @cached_property
    def ids_by_bytes(self) -> dict[bytes, int]:
        """A token for each byte string that some token has."""
        return {spelled: token for token, spelled in enumerate(self.token_bytes) if spelled}

    @cached_property
    def native(self) -> NativeVocabulary:
        """Its copy for the C++ core, which all that need one share."""
        return NativeVocabulary(self.token_bytes, self.eos_token_ids)

    @property
    def num_words(self) -> int:
        """Number of int32 words in a bitmask row."""
        return (len(self.token_bytes) + 31) // 32

    def __getstate__(self) -> dict[str, Any]:
        """Another process makes its own tables."""
        return {name: value for name, value in vars(self).items() if name in self.__match_args__}
