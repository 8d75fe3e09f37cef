"""Tokenizers whose texts are checked token by token."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import strategies as st
from tokenizer_kinds import BUILDERS
from tokenizers import AddedToken, decoders

from specguide.host import env
from specguide.tokenizer import Tokenizer

SHIPPED = Path(__file__).parents[2] / "specguide" / "assets" / "small" / "target"
NAMES = [*BUILDERS, "untrimmed", "shipped", "llama3"]


@cache
def subject(name: str) -> Tokenizer:
    if name == "shipped":
        return Tokenizer.from_folder(SHIPPED)
    if name == "llama3":
        folder = env.data_dir()
        if folder is None:
            pytest.skip("needs real-world data: set SPECGUIDE_DATA to its folder")
        return Tokenizer.from_file(folder / "tokenizers" / "llama3-tokenizer.json.gz", [128_001])
    backend = BUILDERS["sentencepiece" if name == "untrimmed" else name]()
    if name == "untrimmed":  # as Gemma has it
        backend.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
    backend.add_tokens(
        [
            AddedToken(text, normalized=False, special=False)
            for text in ("<tool_call>", "né", "a ▁b", "�", "<0xZZ>", " ", "▁<0x41>")
        ]
    )
    return Tokenizer(backend, [backend.token_to_id("<|end|>")])


@cache
def any_token(name: str) -> st.SearchStrategy[int]:
    vocabulary = subject(name)._backend.get_vocab()
    single = sorted(
        token for entry, token in vocabulary.items() if len(entry) == 1 or entry.startswith("<")
    )
    return st.one_of(st.sampled_from(single), st.integers(0, max(vocabulary.values()) + 3))
