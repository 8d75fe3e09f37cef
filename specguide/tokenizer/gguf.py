"""Owns how the tokenizer in a GGUF file is read: with `transformers`, but without the tokens that
it adds."""

from __future__ import annotations

import json
import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specguide.errors import CheckpointError
from specguide.host.transformers_import import import_transformers
from specguide.inputs.gguf_file import CONTROL, USER_DEFINED, GgufHeader, read_header
from specguide.inputs.json_fields import shown
from specguide.tokenizer.gguf_pieces import AS_LLAMA3, PIECES, cutting

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


_DECODER = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
_BYTE_LEVEL = "gpt2"
"""Value of `tokenizer.ggml.model` for a vocabulary like GPT-2's."""
_SENTENCEPIECE = "llama"
"""Its value for a SentencePiece vocabulary."""
_SPACE = "▁"
"""How a SentencePiece vocabulary writes a space."""


def gguf_tokenizer(path: Path) -> tuple[Backend, Any]:
    """The `tokenizers.Tokenizer` of a GGUF file, and the `transformers` tokenizer that holds its
    chat template. Raises CheckpointError."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, modified_ns: int) -> tuple[Backend, Any]:
    """The result is cached, since some versions of `transformers` take seconds. modified_ns:
    distinguishes a file from a later one of the same name"""
    header = read_header(path)
    is_byte_level = header.metadata.get("tokenizer.ggml.model") == _BYTE_LEVEL
    kind = _kind(path, header) if is_byte_level else None
    try:
        import_transformers()
        # AutoTokenizer would first read the whole configuration, only to choose this same class.
        from transformers import PreTrainedTokenizerFast

        chat = PreTrainedTokenizerFast.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True, trust_remote_code=False
        )
        backend = _without_additions(chat.backend_tokenizer, header.vocab_size)
        if is_byte_level:
            backend = _with_named_tokens(_byte_level(backend, kind), header)
            backend.post_processor = _ends(header, begins=kind in AS_LLAMA3)
        elif header.metadata.get("tokenizer.ggml.model") == _SENTENCEPIECE:
            _space(backend, begins=header.metadata.get("tokenizer.ggml.add_space_prefix", True))
        return backend, chat
    except Exception as error:  # transformers and tokenizers raise many kinds
        raise CheckpointError(f"{path}: its tokenizer cannot be read: {error}") from None


def _kind(path: Path, header: GgufHeader) -> str | None:
    """The kind of the vocabulary's pieces; warns if it is unknown."""
    kind = header.metadata.get("tokenizer.ggml.pre")
    if kind not in PIECES:
        warnings.warn(
            f"{path}: tokenizer.ggml.pre {shown(kind)} is unknown, so a text may get other tokens "
            "than in the training of the model; to be safe, use the model's original folder, with "
            "its tokenizer.json",
            UserWarning,
            stacklevel=2,
        )
    return kind


def _space(backend: Backend, *, begins: bool) -> None:
    """Have spaces written as llama.cpp writes them for a SentencePiece vocabulary, which is also
    how the tokenizer.json of most such models does it: versions of `transformers` differ.

    begins: each text between control tokens begins with an added space
    """
    from tokenizers import decoders, normalizers

    written = normalizers.Replace(" ", _SPACE)
    prefixed = normalizers.Sequence([normalizers.Prepend(_SPACE), written])
    backend.normalizer = prefixed if begins else written
    backend.pre_tokenizer = None  # type: ignore[assignment]
    read = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*read, *([decoders.Strip(" ", 1, 0)] if begins else [])])


def _ends(header: GgufHeader, *, begins: bool) -> Any:
    """The step that puts the begin and end tokens around a text: some versions of `transformers`
    (5.10) do not read everything that the file says. begins: the default if the file does not
    say"""
    from tokenizers.processors import TemplateProcessing

    ids = {}
    for name, default in (("bos", begins), ("eos", False)):
        is_added = header.metadata.get(f"tokenizer.ggml.add_{name}_token", default)
        token_id = header.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if is_added and token_id is not None:
            ids[name] = token_id
    around = [part for part in ("bos", "$A", "eos") if part in ids or part == "$A"]
    return TemplateProcessing(single=around, pair=[*around, "$B"], special_tokens=list(ids.items()))


def _without_additions(backend: Backend, num_tokens: int) -> Backend:
    """Drop the <|endoftext|> that `transformers` adds to a byte-level vocabulary without one; the
    model has no row for it."""
    if backend.get_vocab_size(with_added_tokens=True) <= num_tokens:
        return backend
    state = json.loads(backend.to_str())
    state["added_tokens"] = [one for one in state["added_tokens"] if one["id"] < num_tokens]
    return type(backend).from_str(json.dumps(state))


def _byte_level(backend: Backend, kind: str | None) -> Backend:
    """Restore the byte-level steps. Some versions of `transformers` (5.17) add SentencePiece's
    steps to such a vocabulary: they fuse tokens before their bytes are known, and turn what is
    missing into an unknown token. All versions cut the text of some kinds into GPT-2's pieces.

    kind: see gguf_pieces
    """
    if kind in PIECES:
        backend.pre_tokenizer = cutting(PIECES[kind])
    state = json.loads(backend.to_str())
    plain = {"byte_fallback": False, "fuse_unk": False, "unk_token": None}
    plain["ignore_merges"] = kind in AS_LLAMA3
    if state["decoder"]["type"] == "ByteLevel" and state["model"].items() >= plain.items():
        return backend
    state["model"].update(plain)
    state["decoder"] = _DECODER
    return type(backend).from_str(json.dumps(state))


def _with_named_tokens(backend: Backend, header: GgufHeader) -> Backend:
    """Restore tokens such as DeepSeek's <｜User｜>: some versions of `transformers` (5.24) treat a
    token as text if its name has characters that stand for no byte."""
    state = json.loads(backend.to_str())
    known = {token["id"] for token in state["added_tokens"]}
    spelled = {token_id: token for token, token_id in state["model"]["vocab"].items()}
    for token_id, (name, kind) in enumerate(header.tokens):
        if kind in (CONTROL, USER_DEFINED) and token_id not in known:
            state["model"]["vocab"].pop(spelled.get(token_id), None)
            state["model"]["vocab"][name] = token_id
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            token = {"id": token_id, "content": name, **flags, "special": kind == CONTROL}
            state["added_tokens"].append(token)
    if len(state["added_tokens"]) == len(known):
        return backend
    state["added_tokens"].sort(key=lambda token: token["id"])
    return type(backend).from_str(json.dumps(state))
