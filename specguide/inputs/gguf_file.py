"""Owns the header of a GGUF file: how the file is found, its metadata and its list of tensors.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import check_folder, is_file, shown

SUFFIX = ".gguf"
_OTHER_WEIGHTS = ("*.safetensors", "*.bin")
_EMBEDDINGS = "token_embd.weight"
_ARRAY, _LENGTH = struct.Struct("<IQ"), struct.Struct("<Q")
"""The prefix of an array: its kind and length. The prefix of a string: its length."""
_END_TOKENS = ("eos_token_id", "eot_token_id", "eom_token_id")
_END_NAMES = frozenset(
    (
        *("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>", "<|end|>"),
        *("<end_of_turn>", "<end_of_utterance>", "<|return|>", "<｜end▁of▁sentence｜>"),
    )
)
"""Control tokens at which llama.cpp ends an answer, whatever end ids a file states. Early files of
Llama 3 state only <|end_of_text|>, while the model writes <|eot_id|>."""
CONTROL, USER_DEFINED = 3, 4
"""Values in `tokenizer.ggml.token_type` of special tokens: text is split at them before it is
tokenized."""


@dataclass(frozen=True, eq=False)
class GgufHeader:
    """The header of a file.

    metadata: single values by name
    tensors:  by name, each a `gguf.ReaderTensor`, whose data is mapped into memory
    arrays:   the bytes of the metadata's arrays, by name
    """

    metadata: Mapping[str, Any]
    tensors: Mapping[str, Any]
    arrays: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        """The architecture as GGUF names it, for example "llama"."""
        return str(self.metadata["general.architecture"])

    @property
    def vocab_size(self) -> int:
        """Rows of the embeddings. Raises CheckpointError."""
        if _EMBEDDINGS not in self.tensors:
            raise CheckpointError(f"has no tensor {_EMBEDDINGS!r}")
        return int(self.tensors[_EMBEDDINGS].shape[-1])

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """Ids of the tokens that end an answer, those that the file states first; may be empty."""
        stated = (self.metadata.get(f"tokenizer.ggml.{name}") for name in _END_TOKENS)
        named = (
            token_id
            for token_id, (name, kind) in enumerate(self.tokens)
            if kind == CONTROL and name in _END_NAMES
        )
        ids = chain((int(token) for token in stated if token is not None), named)
        return tuple(dict.fromkeys(ids))

    @cached_property
    def tokens(self) -> tuple[tuple[str, int], ...]:
        """Name and kind of each token of the vocabulary; empty where the file states no kinds."""
        names = self.strings("tokenizer.ggml.tokens")
        return tuple(zip(names, self.integers("tokenizer.ggml.token_type"), strict=False))

    def strings(self, name: str) -> list[str]:
        """An array of strings; empty where the metadata has none of this name."""
        found = []
        data = memoryview(self.arrays.get(name, b""))
        start = _ARRAY.size
        while start < len(data):
            end = start + 8 + _LENGTH.unpack_from(data, start)[0]
            found.append(str(data[start + 8 : end], "utf-8"))
            start = end
        return found

    def integers(self, name: str) -> list[int]:
        """An array of int32; empty where the metadata has none of this name."""
        data = memoryview(self.arrays.get(name, b""))[_ARRAY.size :]
        return [number for (number,) in struct.iter_unpack("<i", data)]


def find_gguf(place: Path) -> Path | None:
    """The GGUF file of a checkpoint: `place` itself, or the only GGUF file of a folder that has no
    config.json or no weights of another format. None: the checkpoint has another format.

    Raises CheckpointError where there is no such file or folder, or several GGUF files.
    """
    if place.suffix == SUFFIX and not place.is_dir():
        if not is_file(place):
            raise CheckpointError(f"{place}: there is no such file")
        return place
    check_folder(place)
    found = sorted(place.glob(f"*{SUFFIX}"))
    has_others = not found or any(any(place.glob(pattern)) for pattern in _OTHER_WEIGHTS)
    if has_others and (place / "config.json").exists():
        return None
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise CheckpointError(
            f"{place}: holds several GGUF files; give the path of one of them: {names}"
        )
    return found[0] if found else None


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file. Raises CheckpointError where the file is damaged or is one part of
    a split file, or where the `gguf` package is not installed."""
    library()
    try:
        header = _read(path, path.stat().st_mtime_ns)
    except Exception as error:  # for a damaged file, the reader raises many kinds
        raise CheckpointError(
            f"{path}: cannot be read as GGUF (truncated or damaged?): {error}"
        ) from None
    if header.metadata.get("split.count", 1) > 1:
        raise CheckpointError(
            f"{path}: is one part of a split file; join the parts with `gguf-split --merge`"
        )
    if "general.architecture" not in header.metadata:
        raise CheckpointError(f"{path}: its metadata have no 'general.architecture'")
    return header


def library() -> ModuleType:
    """The `gguf` package; raises CheckpointError where it is not installed."""
    try:
        import gguf
    except ModuleNotFoundError:
        raise CheckpointError(
            'GGUF files need the `gguf` package: pip install "specguide[gguf]"'
        ) from None
    module: ModuleType = gguf
    return module


@lru_cache(maxsize=2)
def _read(path: Path, modified_ns: int) -> GgufHeader:
    """Reads a header. Cached, since several callers ask for the same one. modified_ns: a part of
    the cache key, so that a changed file is read again"""
    reader = _reader_class()(path)
    metadata = {
        name: _value(field) for name, field in reader.fields.items() if len(field.data) == 1
    }
    arrays = {name: field.parts[-1] for name, field in reader.fields.items() if not field.data}
    return GgufHeader(metadata, {tensor.name: tensor for tensor in reader.tensors}, arrays)


def _value(field: Any) -> Any:
    value = field.contents()
    return value.item() if hasattr(value, "item") else value


def _reader_class() -> Any:
    """gguf's reader, changed to skip over arrays: it would make an object of each of the 100,000
    entries of a vocabulary, which takes seconds."""
    gguf = library()
    kinds: Any = gguf.GGUFValueType

    class Reader(gguf.GGUFReader):  # type: ignore[misc, name-defined]
        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type != kinds.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            data = memoryview(self.data)
            kind, length = _ARRAY.unpack_from(data, orig_offs)
            end = orig_offs + _ARRAY.size
            if kind == kinds.STRING:
                for _ in range(length):
                    end += 8 + _LENGTH.unpack_from(data, end)[0]
            elif kind in self.gguf_scalar_to_np:
                end += length * self.gguf_scalar_to_np[kind]().itemsize
            else:
                raise ValueError(f"an array has values of the unknown type {shown(kind)}")
            return end - orig_offs, [self.data[orig_offs:end]], [], [kinds.ARRAY]

    return Reader
