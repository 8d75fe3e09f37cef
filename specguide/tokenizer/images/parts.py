"""Owns ImageParts: the images of one conversation, from the parts of its messages to its tokens."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from specguide.errors import InvalidParams
from specguide.images import PreparedImage, PromptIds
from specguide.tokenizer.images.decoding import image_of_base64, image_of_url, in_turn, upright

if TYPE_CHECKING:
    from PIL.Image import Image

    from specguide.tokenizer.images.reader import ImageReader

_KINDS = ("image_url", "input_image", "image", "image_pil")


class ImageParts:
    """The images of one conversation. In the texts of its messages, each stands as a mark that
    nobody can guess."""

    def __init__(self, reader: ImageReader) -> None:
        self._reader = reader
        self._mark = f"\N{OBJECT REPLACEMENT CHARACTER}{secrets.token_hex(16)}"
        self.images: list[PreparedImage] = []

    def mark_of(self, part: Any, param: str) -> str | None:
        """The mark of a message part that is an image, which is prepared; None: it is none. The
        part is in the form of OpenAI's chat or responses, of Anthropic, or has a PIL image. Raises
        InvalidParams that names what is wrong."""
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _KINDS:
            return None
        self._reader.check_number(len(self.images) + 1, param)
        picture, place = _picture(part, param)
        with in_turn(picture):
            self.images.append(self._reader.prepare(upright(picture, place), param))
        return self._mark

    def messages(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The messages with contents that have images as lists of parts, as chat templates read
        them."""
        return [self._message(message) for message in messages]

    def prompt_ids(self, token_ids: Sequence[int]) -> PromptIds:
        """The tokens of a rendered conversation with those of its images. Raises InvalidParams
        where the template has not written each image once."""
        num_places = sum(token == self._reader.token_id for token in token_ids)
        if num_places != len(self.images):
            raise InvalidParams(
                f"the chat template wrote {num_places} of {len(self.images)} images: put each in a "
                "user's message, or give the engine a chat_template that writes "
                f"{self._reader.placeholder!r} for a part of type 'image'",
                param="messages",
            )
        return self._reader.prompt_ids(token_ids, self.images)

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        if not isinstance(content, str) or self._mark not in content:
            return dict(message)
        first, *others = content.split(self._mark)
        parts = [[_text(first)], *([{"type": "image"}, _text(text)] for text in others)]
        kept = [part for part in chain.from_iterable(parts) if part != _text("")]
        return {**message, "content": kept}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture(part: Mapping[str, Any], param: str) -> tuple[Image, str]:
    """The picture of a part, not decoded yet, and its place in the request. Raises
    InvalidParams."""
    kind = part["type"]
    if kind in ("image_url", "input_image"):
        url = part.get("image_url")
        if isinstance(url, Mapping):
            url = url.get("url")
        place = f"{param}.image_url"
        return image_of_url(url, place), place
    source = part.get("source")
    if kind == "image" and isinstance(source, Mapping):
        if source.get("type") != "base64":
            raise InvalidParams(
                'the source of an image must be {"type": "base64", "media_type": …, "data": …}: '
                "images are not fetched from elsewhere",
                param=f"{param}.source",
            )
        place = f"{param}.source.data"
        return image_of_base64(source.get("data"), place), place
    place = f"{param}.{kind}"
    return _checked(part.get(kind), place), place


def pil_image(image: Any, param: str) -> Image:
    """A PIL image in RGB, turned as its EXIF data says. Raises InvalidParams for anything else, and
    for one of a damaged file, which Pillow reads only now."""
    return upright(_checked(image, param), param)


def _checked(image: Any, param: str) -> Image:
    """A PIL image. Raises InvalidParams for anything else."""
    from PIL.Image import Image

    if not isinstance(image, Image):
        raise InvalidParams(
            f"an image must be a PIL image or a data URL, found {type(image).__name__}",
            param=param,
        )
    return image
