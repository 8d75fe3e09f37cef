"""Owns which rows of the device's memory for image vectors belong to which image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from specguide.batch import ImageToEncode
from specguide.images import PreparedImage

_FULL_PASS: Final = 1024
"""Vectors of a pass of the encoder that are few for a device: four images of a quarter of these
take half the time that they take one by one."""


@dataclass(eq=False)
class _Held:
    """An image with rows. num_holders: requests that need them; is_encoded: they have its vectors,
    or will have when the planned iterations have run"""

    image: PreparedImage
    rows: tuple[int, ...]
    num_holders: int = 0
    is_encoded: bool = False


class ImageRows:
    """Gives each image of the running requests a row for each of its vectors. Equal images share
    them; an image that nobody needs any more keeps its rows until others take them, those that were
    used longest ago first.

    num_rows: rows of the memory
    """

    def __init__(self, num_rows: int = 0) -> None:
        self.num_rows = num_rows
        self._free = list(range(num_rows))
        self._held: dict[bytes, _Held] = {}  # in the order of their last use
        self._to_encode: list[ImageToEncode] = []

    def hold(self, images: Iterable[PreparedImage]) -> bool:
        """Give each image its rows until `release`; all of them, or none and return False."""
        images = list(images)
        taken: list[PreparedImage] = []
        for image in images:
            if not self._hold(image):
                self.release(taken)
                return False
            taken.append(image)
        return True

    def release(self, images: Iterable[PreparedImage]) -> None:
        """Undo one `hold` of each image."""
        for image in images:
            self._held[image.digest].num_holders -= 1

    def rows(self, image: PreparedImage) -> tuple[int, ...]:
        """The rows of an image that is held, which the next batch encodes unless it is."""
        held = self._held[image.digest]
        if not held.is_encoded:
            self._encode(held)
        return held.rows

    def take(self) -> tuple[ImageToEncode, ...]:
        """The images to encode before the batch that is planned now: those that it needs, and as
        many that others will need as fill up the pass."""
        if self._to_encode:
            room = _FULL_PASS - sum(len(one.rows) for one in self._to_encode)
            for held in self._held.values():
                if held.num_holders and not held.is_encoded and len(held.rows) <= room:
                    room -= len(held.rows)
                    self._encode(held)
        taken = tuple(self._to_encode)
        self._to_encode = []
        return taken

    def _encode(self, held: _Held) -> None:
        held.is_encoded = True
        self._to_encode.append(ImageToEncode(held.rows, held.image))

    def num_of(self, images: Iterable[PreparedImage]) -> int:
        """Number of rows that these images need together."""
        return sum({image.digest: len(image.places) for image in images}.values())

    def _hold(self, image: PreparedImage) -> bool:
        held = self._held.pop(image.digest, None)
        if held is None:
            self._make_room(len(image.places))
            if len(image.places) > len(self._free):
                return False
            first = len(self._free) - len(image.places)
            held = _Held(image, tuple(self._free[first:]))
            del self._free[first:]
        held.num_holders += 1
        self._held[image.digest] = held
        return True

    def _make_room(self, num_rows: int) -> None:
        idle = [digest for digest, held in self._held.items() if not held.num_holders]
        for digest in idle:
            if num_rows <= len(self._free):
                return
            self._free += self._held.pop(digest).rows
