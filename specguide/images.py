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
               (`pixel_values`, `image_grid_thw`, `image_sizes`, …), for this image alone
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
    has no images."""

    images: tuple[PromptImage, ...]

    def __new__(cls, token_ids: Iterable[int], images: tuple[PromptImage, ...] = ()) -> PromptIds:
        """token_ids: the whole prompt, the tokens of the images included"""
        made = super().__new__(cls, token_ids)
        made.images = images
        return made
