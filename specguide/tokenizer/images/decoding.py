"""Owns how a picture's bytes become pixels, within limits."""

from __future__ import annotations

import base64
import binascii
import io
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specguide.errors import InvalidParams

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MOST_BYTES: Final = 64 << 20
"""Most bytes of an encoded picture."""
MOST_PIXELS: Final = 1 << 26
"""Most pixels of a picture; they are told from its first bytes, before it is decoded."""
_LARGE: Final = 1 << 22
"""Pixels from which on pictures are decoded and prepared one after another: a file of a few KB can
be a picture that takes a GiB meanwhile."""

_turn: Final = threading.Lock()


def in_turn(image: Image) -> AbstractContextManager[Any]:
    """Held while a picture is decoded and prepared; waits for another large one if it is large."""
    return _turn if image.width * image.height >= _LARGE else nullcontext()


def image_of_url(url: Any, param: str) -> Image:
    """The picture of a data URL, see `opened`; nothing is ever fetched."""
    if not isinstance(url, str) or not url.startswith("data:"):
        raise InvalidParams(
            'an image must be a data URL, "data:image/png;base64,…": images are not fetched from '
            "other addresses",
            param=param,
        )
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise InvalidParams(
            'a data URL of an image must have the form "data:image/png;base64,…"', param=param
        )
    return image_of_base64(data, param)


def image_of_base64(data: Any, param: str) -> Image:
    """The picture of a base64 text, see `opened`."""
    if not isinstance(data, str):
        raise InvalidParams("the data of an image must be a base64 text", param=param)
    if len(data) > MOST_BYTES * 4 // 3 + 4:
        raise _too_large(param)
    try:
        return opened(base64.b64decode(data, validate=True), param)
    except (binascii.Error, ValueError):
        raise InvalidParams("the data of an image is not valid base64", param=param) from None


def opened(data: bytes, param: str) -> Image:
    """The picture of a file, of which only the first bytes are read: `upright` decodes it. Raises
    InvalidParams that names `param`."""
    from PIL import Image

    if len(data) > MOST_BYTES:
        raise _too_large(param)
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as error:  # PIL has many kinds
        raise InvalidParams(
            f"an image cannot be read ({type(error).__name__}): give a whole file of one of "
            f"{', '.join(FORMATS)}",
            param=param,
        ) from None
    if image.width * image.height > MOST_PIXELS:
        raise InvalidParams(
            f"an image has {image.width} × {image.height} pixels, more than {MOST_PIXELS:,}: "
            "shrink it",
            param=param,
        )
    return image


def upright(image: Image, param: str) -> Image:
    """The picture in RGB, turned as its EXIF data says; what is transparent becomes white, and of
    an animation the first frame counts. Raises InvalidParams that names `param`."""
    from PIL import ImageOps

    try:
        return _in_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # damaged files raise what their decoder raises
        raise InvalidParams(
            f"an image is damaged or cut off: {error or type(error).__name__}", param=param
        ) from None


def white_square() -> Image:
    """A small picture, for trials."""
    from PIL import Image

    return Image.new("RGB", (64, 64), "white")


def _in_rgb(image: Image) -> Image:
    """The picture in RGB, on white where it is transparent."""
    from PIL import Image

    if image.mode.startswith("I;16"):  # Pillow would make all but the darkest white
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(white, layer).convert("RGB")


def _too_large(param: str) -> InvalidParams:
    return InvalidParams(f"an image has more than {MOST_BYTES >> 20} MiB: shrink it", param=param)
