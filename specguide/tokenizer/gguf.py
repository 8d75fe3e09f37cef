"""Owns how the tokenizer in a GGUF file is read: by `transformers`, without the tokens that it adds
of its own."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specguide.errors import CheckpointError
from specguide.gguf_file import GgufHeader, read_header

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


_DECODER = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
_BYTE_LEVEL = "gpt2"
"""As `tokenizer.ggml.model` calls a vocabulary of GPT-2's kind."""
_CONTROL, _USER_DEFINED = 3, 4
"""In `tokenizer.ggml.token_type`: tokens that text is searched for before it is tokenized."""
_LLAMA3 = {
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "tekken",
}
"""As `tokenizer.ggml.pre` calls what llama.cpp reads as Llama 3's: a piece of text that is a token
is that token, whatever the merges make of it; and a text begins with the begin token, where the
file does not say otherwise."""


def gguf_tokenizer(path: Path) -> tuple[Backend, Any]:
    """The `tokenizers.Tokenizer` of a GGUF file, and the `transformers` tokenizer that holds its
    chat template. Raises CheckpointError."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, modified_ns: int) -> tuple[Backend, Any]:
    """Kept, since some versions of `transformers` take seconds. modified_ns: tells a file from its
    successor"""
    header = read_header(path)
    is_byte_level = header.metadata.get("tokenizer.ggml.model") == _BYTE_LEVEL
    is_llama3 = is_byte_level and header.metadata.get("tokenizer.ggml.pre") in _LLAMA3
    begins = is_llama3 and "tokenizer.ggml.add_bos_token" not in header.metadata
    try:
        # AutoTokenizer would read the whole configuration first, to choose this same class.
        from transformers import PreTrainedTokenizerFast

        chat = PreTrainedTokenizerFast.from_pretrained(
            path.parent,
            gguf_file=path.name,
            local_files_only=True,
            trust_remote_code=False,
            **({"add_bos_token": True} if begins else {}),
        )
        backend = _without_additions(chat.backend_tokenizer, header.vocab_size)
        if is_byte_level:
            backend = _with_named_tokens(_byte_level(backend, is_llama3), header)
        return backend, chat
    except Exception as error:  # transformers and tokenizers raise many kinds
        raise CheckpointError(f"{path}: its tokenizer cannot be read: {error}") from None


def _without_additions(backend: Backend, num_tokens: int) -> Backend:
    """`transformers` gives a byte-level vocabulary an <|endoftext|> where it has none; the model
    has no row for it."""
    if backend.get_vocab_size(with_added_tokens=True) <= num_tokens:
        return backend
    state = json.loads(backend.to_str())
    state["added_tokens"] = [one for one in state["added_tokens"] if one["id"] < num_tokens]
    return type(backend).from_str(json.dumps(state))


def _byte_level(backend: Backend, ignores_merges: bool) -> Backend:
    """Some versions of `transformers` give such a vocabulary SentencePiece's steps as well (5.17
    does): they fuse tokens before their bytes are known, and spell what is missing as an unknown
    token. ignores_merges: where a piece of text is a token"""
    state = json.loads(backend.to_str())
    plain = {"byte_fallback": False, "fuse_unk": False, "unk_token": None}
    plain["ignore_merges"] = ignores_merges
    if state["decoder"]["type"] == "ByteLevel" and state["model"].items() >= plain.items():
        return backend
    state["model"].update(plain)
    state["decoder"] = _DECODER
    return type(backend).from_str(json.dumps(state))


def _with_named_tokens(backend: Backend, header: GgufHeader) -> Backend:
    """Some versions of `transformers` take a token for text whose name has characters that are no
    byte's (5.24 does), as <｜User｜> of DeepSeek's."""
    names = header.strings("tokenizer.ggml.tokens")
    kinds = header.integers("tokenizer.ggml.token_type")
    state = json.loads(backend.to_str())
    known = {token["id"] for token in state["added_tokens"]}
    spelled = {token_id: token for token, token_id in state["model"]["vocab"].items()}
    for token_id, (name, kind) in enumerate(zip(names, kinds, strict=False)):
        if kind in (_CONTROL, _USER_DEFINED) and token_id not in known:
            state["model"]["vocab"].pop(spelled.get(token_id), None)
            state["model"]["vocab"][name] = token_id
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            token = {"id": token_id, "content": name, **flags, "special": kind == _CONTROL}
            state["added_tokens"].append(token)
    if len(state["added_tokens"]) == len(known):
        return backend
    state["added_tokens"].sort(key=lambda token: token["id"])
    for name, token in (state["post_processor"] or {}).get("special_tokens", {}).items():
        token["ids"] = [state["model"]["vocab"][name]]
    return type(backend).from_str(json.dumps(state))
