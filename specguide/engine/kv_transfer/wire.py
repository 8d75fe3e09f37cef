"""Owns what engines say to each other of pages: a frame of MessagePack, then frames of raw bytes.

| decode → prefill | prefill → decode |
|------------------|------------------|
| Fetch            | Pages, or Refused |
| Forget           |                   |

What does not match its type is no message: `decode` of a decoder raises one of MALFORMED.
"""

from __future__ import annotations

import msgspec


class CacheFormat(msgspec.Struct, frozen=True):
    """What pages of two engines must have in common. Each field is compared.

    release:   of this protocol and of how keys are computed
    model:     hash of the target's checkpoint
    quantization: of its weights
    drafter:   method and hash of the drafter's checkpoint, "" where it keeps no keys
    dtype:     torch's name of what models compute in
    cache_dtype: of what keys are held in
    page_size: tokens a page
    shapes:    layers, heads and head size of each cache
    """

    release: str
    model: str
    quantization: str
    drafter: str
    dtype: str
    cache_dtype: str
    page_size: int
    shapes: list[tuple[int, int, int]]


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The pages `first` to before `end` of a prompt are wanted. number: the asker's for it"""

    number: int
    format: CacheFormat
    prompt_ids: list[int]
    first: int
    end: int


class Forget(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Nobody waits any more for the pages that were asked for under this number."""

    number: int


class Pages(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Some of the pages, from `first` on; a frame for each cache follows. They come in order."""

    number: int
    first: int
    num_pages: int
    is_last: bool


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """There will be no (more) pages. cause: in words"""

    number: int
    cause: str


MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""What decoding raises; the last for a type's name that is no UTF-8."""
ENCODER = msgspec.msgpack.Encoder()
FROM_DECODE: msgspec.msgpack.Decoder[Fetch | Forget] = msgspec.msgpack.Decoder(Fetch | Forget)
FROM_PREFILL: msgspec.msgpack.Decoder[Pages | Refused] = msgspec.msgpack.Decoder(Pages | Refused)


def difference(ours: CacheFormat, theirs: CacheFormat) -> str | None:
    """Where pages of one do not fit the other, in words; None where they do."""
    for name in CacheFormat.__struct_fields__:
        own, other = getattr(ours, name), getattr(theirs, name)
        if own != other:
            return f"{name} is {own!r} here and {other!r} in the engine that asks"
    return None
