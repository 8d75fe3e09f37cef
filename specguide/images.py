"""Owns the data types of images in prompts: PreparedImage, PromptImage, PromptIds. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, eq=False)
class PreparedImage:
    """An image as the encoder reads it.

    digest:    16 bytes that name its content; equal images have equal ones
    arrays:    what the encoder reads, by the names that transformers' processors use
               (`pixel_values`, `image_grid_thw`, `image_sizes`, …), for this image alone. Those of
               uint16 have the bits of bfloat16, which numpy does not know
    token_ids: the tokens that stand for it in a prompt
    places:    ascending indices of the `token_ids` whose embedding is a vector of the image instead
    grid:      rows and columns of these vectors, where the model numbers positions in both
               directions (Qwen2-VL, arXiv 2409.12191); None: each has a position of its own
    """

    digest: bytes
    arrays: Mapping[str, np.ndarray]
    token_ids: tuple[int, ...]
    places: tuple[int, ...]
    grid: tuple[int, int] | None = None


class PromptImage(NamedTuple):
    """An image in a prompt. start: index of the first of its token ids in the prompt"""

    start: int
    image: PreparedImage


class PromptIds(tuple[int, ...]):
    """The token ids of a prompt, and the images among them in the order of their starts. A slice
    has no images. Prompts with other images are not equal."""

    images: tuple[PromptImage, ...]

    def __new__(cls, token_ids: Iterable[int], images: tuple[PromptImage, ...] = ()) -> PromptIds:
        """token_ids: the whole prompt, the tokens of the images included"""
        made = super().__new__(cls, token_ids)
        made.images = images
        return made

    @property
    def _contents(self) -> list[tuple[int, bytes]]:
        return [(start, image.digest) for start, image in self.images]

    def __eq__(self, other: object) -> bool:
        theirs = other._contents if isinstance(other, PromptIds) else []
        return super().__eq__(other) and self._contents == theirs

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class RotaryPositions(NamedTuple):
    """The positions by which a prompt's queries and keys are rotated.

    axes:  for each token, its position in time, height and width, which differ in images alone:
           int64 [3, T]
    shift: what is added to the position of each later token
    """

    axes: np.ndarray
    shift: int

    @classmethod
    def of(cls, num_tokens: int, images: Iterable[PromptImage]) -> RotaryPositions:
        """The positions of a prompt (Wang et al. 2024, "Qwen2-VL", arXiv 2409.12191, section 2.1):
        an image counts as many as it has rows or columns of vectors, whichever are more."""
        axes = np.tile(np.arange(num_tokens, dtype=np.int64), (3, 1))
        shift = 0
        for start, image in images:
            if image.grid is None or not image.places:
                continue
            first, last = (start + image.places[place] for place in (0, -1))
            num_rows, num_columns = image.grid
            rows, columns = np.divmod(np.arange(num_rows * num_columns), num_columns)
            axes[:, first : last + 1] = first + shift + np.stack((0 * rows, rows, columns))
            shift += max(image.grid) - num_rows * num_columns
            axes[:, last + 1 :] += max(image.grid) - num_rows * num_columns
        return cls(axes, shift)


def content_ids(image: PreparedImage, part: slice) -> list[int]:
    """A negative number for each of this part of the image's `places`, which names the place and
    the image's content: pages of the KV cache are found by them. Two neighbours together have 126
    bits of the digest."""
    halves = [int.from_bytes(image.digest[start : start + 8]) >> 1 for start in (0, 8)]
    return [-1 - (halves[index % 2] ^ index) for index in range(len(image.places))[part]]
