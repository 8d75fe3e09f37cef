"""Owns ImageReader: a folder's image processor, and how images get among the tokens of a prompt."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specguide.errors import CheckpointError, InvalidParams
from specguide.host.transformers_import import quiet_transformers
from specguide.images import PreparedImage, PromptIds, PromptImage
from specguide.tokenizer.images.families import (
    Arrays,
    ImageFamily,
    family_of,
    image_token_id,
    reads_images,
)
from specguide.tokenizer.transformers_tokenizer import read_if_there

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST_CACHED: Final = 1 << 30
"""Most bytes of prepared images that are kept for later turns of a conversation."""


class ImageReader:
    """Prepares images for a model. Thread-safe.

    token_id: the token that stands for an image in a chat template's text, and for each of its
              vectors in a prompt
    most:     most images of a request
    dtype:    torch's name of the dtype of the encoder
    """

    def __init__(
        self,
        family: ImageFamily,
        config: Any,
        processor: Any,
        chat: Any,
        *,
        token_id: int,
        most: int,
        dtype: str,
    ) -> None:
        """config: transformers' configuration of the folder; processor: calls its image
        processor, or the processor that writes the tokens as well; chat: its tokenizer"""
        self._family, self._config, self._processor, self._chat = family, config, processor, chat
        self.token_id, self.most, self._dtype = token_id, most, dtype
        self._prepared: OrderedDict[bytes, PreparedImage] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folder: Path, chat: Any, most: int, dtype: str = "float32") -> ImageReader | None:
        """The reader of a folder; None where its images are not read.

        chat:  its tokenizer as transformers has it
        most, dtype: see the class
        Raises CheckpointError for a processor that cannot be read.
        """
        if not reads_images(folder):
            return None
        try:
            with quiet_transformers():
                family, config, processor = _loaded(folder, chat)
        except Exception as error:  # it checks values in its own ways
            raise CheckpointError(
                f"{folder}: its image processor cannot be read: {error}"
            ) from None
        token_id = image_token_id(folder)
        return cls(family, config, processor, chat, token_id=token_id, most=most, dtype=dtype)

    def check_number(self, num_images: int, param: str) -> None:
        """Raises InvalidParams for more images than a request may have."""
        if num_images > self.most:
            raise InvalidParams(
                f"the request has more than {self.most} images: send fewer, or raise "
                "limit_images_per_prompt",
                param=param,
            )

    def prepare(self, image: Image, param: str) -> PreparedImage:
        """An image in RGB, as the encoder reads it. Raises InvalidParams, which names `param`,
        where the processor refuses it."""
        key = blake2b(image.tobytes(), key=b"%dx%d" % image.size, digest_size=16).digest()
        with self._lock:
            if key in self._prepared:
                self._prepared.move_to_end(key)
                return self._prepared[key]
        try:
            made = self._prepare(image, key)
        except Exception as error:  # it checks values in its own ways
            raise InvalidParams(
                f"the model's processor refuses an image: {error}", param=param
            ) from None
        self._keep(key, made)
        return made

    def prompt_ids(self, token_ids: Sequence[int], images: Sequence[PreparedImage]) -> PromptIds:
        """A prompt in which the tokens of each image stand where `token_id` stood. Raises
        InvalidParams where there are not as many of it as images."""
        num_places = list(token_ids).count(self.token_id)
        if num_places != len(images):
            raise InvalidParams(
                f"the prompt has {num_places} places for images and {len(images)} images: each "
                f"image needs one {self.placeholder!r} in the prompt"
            )
        rest = iter(images)
        made: list[int] = []
        placed = []
        for token in token_ids:
            if token != self.token_id:
                made.append(token)
                continue
            image = next(rest)
            placed.append(PromptImage(len(made), image))
            made += image.token_ids
        return PromptIds(made, tuple(placed))

    @property
    def placeholder(self) -> str:
        """The text that stands for an image in a prompt."""
        return str(self._chat.convert_ids_to_tokens(self.token_id))

    def _prepare(self, image: Image, digest: bytes) -> PreparedImage:
        family = self._family
        if family.tokens is None:
            made = self._processor(
                text=[self.placeholder],
                images=[image],
                return_tensors="pt",
                add_special_tokens=False,
            )
            token_ids = [int(token) for token in made["input_ids"][0]]
            grid = None
        else:
            made = self._processor([image], return_tensors="pt")
            tokens = family.tokens(self._config, made)
            token_ids = [self._id(text) for text in tokens.texts]
            grid = tokens.grid
        places = [place for place, token in enumerate(token_ids) if token == self.token_id]
        arrays = {name: self._array(made[name]) for name in family.arrays if name in made}
        return PreparedImage(digest, arrays, tuple(token_ids), tuple(places), grid)

    def _array(self, tensor: Any) -> np.ndarray:
        """A tensor as PreparedImage has it: pixels in bfloat16 where the encoder rounds them to it
        anyway, half as much to keep and to send."""
        import torch

        if self._dtype == "bfloat16" and tensor.is_floating_point():
            tensor = tensor.to(torch.bfloat16).view(torch.uint16)
        return np.asarray(tensor)

    def _id(self, text: str | None) -> int:
        """The id of a token of ImageTokens."""
        return self.token_id if text is None else int(self._chat.convert_tokens_to_ids(text))

    def _keep(self, key: bytes, image: PreparedImage) -> None:
        with self._lock:
            if key not in self._prepared:
                self._num_bytes += _size(image.arrays)
            self._prepared[key] = image
            while self._num_bytes > _MOST_CACHED and len(self._prepared) > 1:
                _, oldest = self._prepared.popitem(last=False)
                self._num_bytes -= _size(oldest.arrays)


def _loaded(folder: Path, chat: Any) -> tuple[ImageFamily, Any, Any]:
    """A folder's family and configuration, and what calls its processor."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(
        folder, trust_remote_code=False, local_files_only=True
    )
    processor = transformers.AutoImageProcessor.from_pretrained(
        folder, backend=_backend(), trust_remote_code=False, local_files_only=True
    )
    family = family_of(folder, config)
    settings = family.settings(config)
    if family.processor is None:
        return family, config, partial(processor, **settings)
    stated = read_if_there(folder / "processor_config.json")
    settings |= {name: stated[name] for name in settings if name in stated}
    return family, config, getattr(transformers, family.processor)(processor, chat, **settings)


def _backend() -> str:
    """What resizes images: torchvision, which is several times as fast, where it is installed."""
    return "pil" if find_spec("torchvision") is None else "torchvision"


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())
