"""Owns the messages between engines about pages: a MessagePack frame, then frames of raw bytes.

| decode → prefill | prefill → decode |
|------------------|------------------|
| Fetch            | Pages, or Refused |
| Forget           |                   |

A frame that does not match its type is refused: `decode` raises one of MALFORMED.
"""

from __future__ import annotations

import msgspec


class CacheFormat(msgspec.Struct, frozen=True):
    """What two engines must have in common to exchange pages. All fields are compared.

    release:   version of this protocol, and of how keys are computed
    model:     hash of the target's checkpoint
    quantization: quantization of its weights, or ""
    drafter:   method, quantization and hash of the drafter's checkpoint; "" where it keeps no keys
    dtype:     torch's name of the dtype that models compute in
    cache_dtype: torch's name of the dtype of keys and values
    page_size: tokens a page
    shapes:    number of layers, number of heads and head size of each cache
    adapters:  name and hash of each LoRA adapter, in the order in which requests number them
    """

    release: str
    model: str
    quantization: str
    drafter: str
    dtype: str
    cache_dtype: str
    page_size: int
    shapes: list[tuple[int, int, int]]
    adapters: list[tuple[str, str]] = []


class Fetch(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Asks for the pages `first` … `end` - 1 of a prompt.

    number:  the sender's number for this
    adapter: the LoRA adapter that computes the prompt, see SlotEntry
    """

    number: int
    format: CacheFormat
    prompt_ids: list[int]
    first: int
    end: int
    adapter: int = 0


class Forget(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Says that the pages that were asked for under this number are not needed any more."""

    number: int


class Pages(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Some of the pages, from `first` on. A frame for each cache follows. Messages come in
    order."""

    number: int
    first: int
    num_pages: int
    is_last: bool


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Says that no pages, or no more pages, will come. cause: why, in words"""

    number: int
    cause: str


MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""Errors that decoding raises; the last one for a type's name that is not UTF-8."""
ENCODER = msgspec.msgpack.Encoder()
FROM_DECODE: msgspec.msgpack.Decoder[Fetch | Forget] = msgspec.msgpack.Decoder(Fetch | Forget)
FROM_PREFILL: msgspec.msgpack.Decoder[Pages | Refused] = msgspec.msgpack.Decoder(Pages | Refused)


def difference(ours: CacheFormat, theirs: CacheFormat) -> str | None:
    """The first difference between two formats, in words; None where they are equal."""
    for name in CacheFormat.__struct_fields__:
        own, other = getattr(ours, name), getattr(theirs, name)
        if own != other:
            return f"{name} is {own!r} with role 'prefill' and {other!r} with role 'decode'"
    return None
