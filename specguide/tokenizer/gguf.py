"""Owns how the tokenizer in a GGUF file is read: by `transformers`, without the tokens that it adds
of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specguide.errors import CheckpointError
from specguide.gguf_file import read_header

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


def gguf_tokenizer(path: Path) -> tuple[Backend, Any]:
    """The `tokenizers.Tokenizer` of a GGUF file, and the `transformers` tokenizer that holds its
    chat template. Raises CheckpointError."""
    num_tokens = read_header(path).vocab_size
    try:
        # AutoTokenizer would read the whole configuration first, to choose this same class.
        from transformers import PreTrainedTokenizerFast

        chat = PreTrainedTokenizerFast.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True, trust_remote_code=False
        )
        return _without_additions(chat.backend_tokenizer, num_tokens), chat
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
