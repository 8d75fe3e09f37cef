"""Tokenizers in GGUF files: token for token those that they were made from."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from gguf_files import write_sentencepiece, write_vocabulary
from tokenizer_kinds import CORPUS, TEXTS, byte_level, sentencepiece_bpe
from tokenizers import AddedToken, normalizers
from tokenizers import Tokenizer as Backend
from tokenizers.decoders import ByteFallback, Fuse, Replace, Sequence
from transformers import PreTrainedTokenizerFast

from specguide.tokenizer import Tokenizer
from specguide.tokenizer.gguf import gguf_tokenizer


def without_merges(backend: Backend, ending: str, *, ignores_merges: bool) -> Backend:
    """A backend whose tokens with this ending can be made of no others any more."""
    state = json.loads(backend.to_str())
    merges = [pair for pair in state["model"]["merges"] if not pair[1].endswith(ending)]
    state["model"] |= {"merges": merges, "ignore_merges": ignores_merges}
    return Backend.from_str(json.dumps(state))


@pytest.mark.parametrize(
    ("pre", "ignores_merges"), [("llama-bpe", True), ("tekken", True), ("gpt-2", False)]
)
def test_a_piece_that_is_a_token(pre: str, ignores_merges: bool, tmp_path: Path) -> None:
    backend = without_merges(byte_level(), "k", ignores_merges=ignores_merges)
    tokenizer = Tokenizer.from_folder(write_vocabulary(tmp_path / "model.gguf", backend, pre))
    words = [word for word in " ".join(CORPUS).split(" ") if word.isascii() and word.isalpha()]
    for word in words:
        expected = backend.encode(f" {word}").ids
        assert tokenizer.encode(f" {word}") == expected
    assert (len(tokenizer.encode(" quick")) == 1) == ignores_merges


@pytest.mark.parametrize(
    ("pre", "flags", "begins"),
    [
        ("llama-bpe", {}, True),
        ("llama-bpe", {"add_bos_token": False}, False),
        ("gpt-2", {}, False),
        ("gpt-2", {"add_bos_token": True}, True),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, True),
    ],
)
def test_the_begin_token(pre: str, flags: dict[str, bool], begins: bool, tmp_path: Path) -> None:
    backend = byte_level()
    begin = backend.token_to_id("<|begin|>")
    path = write_vocabulary(
        tmp_path / "model.gguf", backend, pre, bos_token_id=begin, eos_token_id=0, **flags
    )
    expected = backend.encode("lazy dog").ids
    tokenizer = Tokenizer.from_folder(path)
    end = [backend.token_to_id("<|end|>")] if flags.get("add_eos_token") else []
    assert tokenizer.encode("lazy dog") == ([begin] if begins else []) + expected + end
    assert tokenizer.encode("lazy dog", add_special_tokens=False) == expected


def test_control_tokens_with_any_characters(tmp_path: Path) -> None:
    backend = byte_level()
    names = ("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>")
    backend.add_special_tokens(list(names))
    backend.add_tokens([AddedToken("  \n", normalized=False), AddedToken("<think>")])
    begin = backend.token_to_id(names[0])
    end = backend.token_to_id("<|end|>")
    flags = {"bos_token_id": begin, "add_bos_token": True, "eos_token_id": end}
    path = write_vocabulary(tmp_path / "model.gguf", backend, "gpt-2", **flags)
    tokenizer = Tokenizer.from_folder(path)
    assert len(tokenizer) == backend.get_vocab_size()
    text = f"{names[0]}lazy{names[1]}dog  \n<think>{names[1]}"
    ids = backend.encode(text).ids
    assert tokenizer.encode(text) == [begin, *ids]
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.decode(ids) == backend.decode(ids)
    assert tokenizer.vocabulary() == Tokenizer(backend, [end]).vocabulary()


@pytest.mark.parametrize(
    ("stated", "pieces"),
    [
        ("gpt-2", ["a", ".", "b", "\u010a", "\u010a", "123", "\u0120", "\u01204"]),
        ("smollm", ["a", ".", "b", "\u010a\u010a", "1", "2", "3", "\u0120\u0120", "4"]),
        ("qwen2", ["a", ".b", "\u010a\u010a", "1", "2", "3", "\u0120", "\u0120", "4"]),
        ("deepseek-coder", ["a", ".", "b", "\u010a", "\u010a", "1", "2", "3", "\u0120\u0120", "4"]),
        ("llama-bpe", ["a", ".b", "\u010a\u010a", "123", "\u0120", "\u0120", "4"]),
    ],
)
def test_pieces_are_those_of_the_kind(
    stated: str, pieces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers takes GPT-2's pieces for some kinds, and 5.10 for each."""
    told = SimpleNamespace(backend_tokenizer=byte_level())
    monkeypatch.setattr(PreTrainedTokenizerFast, "from_pretrained", lambda *_, **__: told)
    path = write_vocabulary(tmp_path / "model.gguf", byte_level(), stated)
    backend = gguf_tokenizer(path)[0]
    found = backend.pre_tokenizer.pre_tokenize_str("a.b\n\n123  4")
    assert [piece for piece, _ in found] == pieces


def test_pieces_of_an_unknown_kind_are_warned_of(tmp_path: Path) -> None:
    path = write_vocabulary(tmp_path / "model.gguf", byte_level(), "deepseek-llm")
    with pytest.warns(UserWarning, match=r"tokenizer\.ggml\.pre 'deepseek-llm' is unknown"):
        gguf_tokenizer(path)


@pytest.mark.parametrize("flags", [{}, {"add_space_prefix": True}, {"add_space_prefix": False}])
def test_a_sentencepiece_text_begins_as_the_file_says(
    flags: dict[str, bool], tmp_path: Path
) -> None:
    backend = sentencepiece_bpe()
    if not flags.get("add_space_prefix", True):
        backend.normalizer = normalizers.Replace(" ", "▁")
        backend.decoder = Sequence([Replace("▁", " "), ByteFallback(), Fuse()])
    path = write_sentencepiece(tmp_path / "model.gguf", backend, add_bos_token=False, **flags)
    tokenizer = Tokenizer.from_folder(path)
    for text in (*TEXTS, "<|begin|>fox<|end|> lazy"):
        ids = backend.encode(text).ids
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == backend.decode(ids)


def test_ends_that_the_file_does_not_state(tmp_path: Path) -> None:
    """Early files of Llama 3 are so: their chats end with a token that no metadata names."""
    backend = byte_level()
    backend.add_special_tokens(["<|end_of_text|>", "<|eot_id|>"])
    backend.add_tokens(["<|im_end|>"])  # which is text here
    stated, of_turns, end = map(backend.token_to_id, ("<|end_of_text|>", "<|eot_id|>", "<|end|>"))
    path = write_vocabulary(tmp_path / "model.gguf", backend, "gpt-2", eos_token_id=stated)
    assert Tokenizer.from_folder(path).eos_token_ids == (stated, end, of_turns)
