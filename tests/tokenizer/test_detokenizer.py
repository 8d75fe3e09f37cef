"""Deltas of a growing token list join to what the tokenizer makes of all of it, whatever the tokens
are."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizer_kinds import BUILDERS, TEXTS
from tokenizer_subjects import NAMES, any_token, subject
from tokenizers import decoders

from specguide.errors import CheckpointError
from specguide.tokenizer import Tokenizer

WRITE_ANY_TEXT = [name for name in NAMES if name != "metaspace"]


def deltas(tokenizer: Tokenizer, token_ids: list[int], skips: bool = True) -> list[str]:
    detokenizer = tokenizer.detokenizer(skip_special_tokens=skips)
    return [*(detokenizer.add(token) for token in token_ids), detokenizer.flush()]


def same(tokenizer: Tokenizer, token_ids: list[int]) -> None:
    for skips in (True, False):
        told = "".join(deltas(tokenizer, token_ids, skips))
        assert told == tokenizer.decode(token_ids, skips), token_ids


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300)
@given(data=st.data())
def test_any_tokens(name: str, data: st.DataObject) -> None:
    """Ids without a token, special ones and added ones among them; often single bytes, so that
    characters break."""
    same(subject(name), data.draw(st.lists(any_token(name), max_size=24)))


@pytest.mark.parametrize("name", WRITE_ANY_TEXT)
@settings(max_examples=200)
@given(st.text())
@example("é" * 50 + "\ufffd" * 3)
@example("   three spaces")
def test_any_text_whole_and_broken_off(name: str, text: str) -> None:
    tokenizer = subject(name)
    token_ids = tokenizer.encode(text)
    for start, end in ((0, None), (1, None), (0, len(token_ids) // 2)):
        same(tokenizer, token_ids[start:end])


@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(list(bytes.fromhex("00417f80829fa0acbfc0c2e0e2edeff0f4f5ff"))), max_size=12
    )
)
@pytest.mark.parametrize("name", ["byte-level", "sentencepiece", "untrimmed"])
def test_any_bytes(name: str, values: list[int]) -> None:
    tokenizer = subject(name)
    if name == "byte-level":
        table = tokenizer.vocabulary().token_bytes
        same(tokenizer, [table.index(bytes([value])) for value in values])
    else:
        same(tokenizer, [tokenizer.token_id(f"<0x{value:02X}>") for value in values])


@pytest.mark.parametrize("name", WRITE_ANY_TEXT)
@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_known_text_is_not_held_back(name: str, text: str) -> None:
    """Each delta ends where the last whole character does, if no byte tokens are about."""
    tokenizer = subject(name)
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    shown, has_byte_tokens = "", name in ("sentencepiece", "untrimmed", "metaspace-bpe")
    for count, delta in enumerate(deltas(tokenizer, token_ids)[:-1], 1):
        shown += delta
        so_far = tokenizer.decode(token_ids[:count])
        assert so_far.startswith(shown) or has_byte_tokens
        assert has_byte_tokens or shown == so_far.rstrip("\ufffd")


def test_incomplete_characters_wait_and_are_replaced_at_the_end() -> None:
    byte_level = subject("byte-level")
    table = byte_level.vocabulary().token_bytes
    euro, letter = [table.index(bytes([value])) for value in "€".encode()], table.index(b"a")
    assert deltas(byte_level, [letter, *euro]) == ["a", "", "", "€", ""]
    assert deltas(byte_level, [*euro[:2], letter]) == ["", "", "\ufffda", ""]
    assert deltas(byte_level, euro[:2]) == ["", "", "\ufffd"]


def test_runs_of_byte_tokens_wait_for_their_end() -> None:
    """The decoder makes nothing of a run that is not UTF-8 as a whole, not even of its whole
    characters."""
    pieces = subject("sentencepiece")
    euro = [pieces.token_id(f"<0x{value:02X}>") for value in "€".encode()]
    letter, end = pieces.token_id("a"), pieces.token_id("<|end|>")
    assert deltas(pieces, [letter, *euro, letter]) == ["a", "", "", "", "€a", ""]
    assert deltas(pieces, [letter, *euro, end, *euro[:2]]) == [
        "a",
        "",
        "",
        "",
        "",
        "",
        "",
        "\ufffd" * 5,
    ]


def test_a_leading_space_is_trimmed_once() -> None:
    pieces = subject("sentencepiece")
    space, letter = pieces.token_id("▁"), pieces.token_id("a")
    assert deltas(pieces, [space, space, letter]) == ["", " ", "a", ""]
    assert deltas(pieces, []) == [""]


def test_text_that_cannot_be_known_token_by_token() -> None:
    backend = BUILDERS["sentencepiece"]()
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 1)]
    )
    with pytest.raises(CheckpointError, match="strips the end of a text"):
        Tokenizer(backend).detokenizer()
