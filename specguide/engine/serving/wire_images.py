"""Owns the conversion of a prompt's images to messages and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from specguide.engine.serving.wire import ArrayData, ImageData
from specguide.errors import InvalidParams
from specguide.images import PreparedImage, PromptIds, PromptImage


def images_data(prompt_ids: Sequence[int]) -> list[ImageData]:
    """The images of a prompt, for a message."""
    images = prompt_ids.images if isinstance(prompt_ids, PromptIds) else ()
    return [
        ImageData(
            start,
            len(image.token_ids),
            image.digest,
            list(image.places),
            image.grid,
            {name: _data(array) for name, array in image.arrays.items()},
        )
        for start, image in images
    ]


def prompt_of(token_ids: tuple[int, ...], images: Sequence[ImageData]) -> Sequence[int]:
    """The prompt of a message. Raises InvalidParams for images that are not within it."""
    if not images:
        return token_ids
    made = []
    for one in images:
        own = token_ids[one.start : one.start + one.num_tokens] if one.start >= 0 else ()
        if len(own) != one.num_tokens or not set(one.places) <= set(range(one.num_tokens)):
            raise InvalidParams("an image is not within its prompt", param="prompt")
        arrays = {name: _array(data) for name, data in one.arrays.items()}
        image = PreparedImage(one.digest, arrays, own, tuple(one.places), one.grid)
        made.append(PromptImage(one.start, image))
    return PromptIds(token_ids, tuple(made))


def _data(array: np.ndarray) -> ArrayData:
    return ArrayData(array.dtype.str, array.shape, np.ascontiguousarray(array).data)


def _array(data: ArrayData) -> np.ndarray:
    dtype = np.dtype(data.dtype)
    if dtype.hasobject or len(data.data) != prod(data.shape) * dtype.itemsize:
        raise InvalidParams("an array of an image has another size than its data", param="prompt")
    return np.frombuffer(data.data, dtype).reshape(data.shape)
