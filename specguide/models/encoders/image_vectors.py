"""Owns ImageVectors: the device's memory for vectors of images, and how passes read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specguide.batch import ImageToEncode
from specguide.images import PreparedImage


class Encoder(Protocol):
    """What makes vectors of images; `models.encoders` has one.

    num_deep: further vectors of each place, which are added behind as many of the first layers
    """

    num_deep: int

    def encode(self, images: Sequence[PreparedImage]) -> list[Tensor]:
        """The vectors of each image, [places, (1 + num_deep) · hidden_size]."""


class ImageVectors:
    """Rows of image vectors, which stand for the embeddings of tokens.

    token_id: the token that stands for each vector in a prompt
    vectors: [num_rows, 1 + num_deep, hidden_size]; the vectors behind the first one are added to
             the residual stream behind the first layers (Bai et al. 2025, "Qwen3-VL", DeepStack)
    """

    def __init__(
        self,
        encoder: Encoder,
        token_id: int,
        num_rows: int,
        hidden_size: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._encoder, self.token_id = encoder, token_id
        shape = num_rows, 1 + encoder.num_deep, hidden_size
        self.vectors = torch.zeros(shape, dtype=dtype, device=device)
        self.num_deep = encoder.num_deep

    def encode(self, images: Sequence[ImageToEncode]) -> None:
        """Encode each image into its rows."""
        encoded = self._encoder.encode([image for _, image in images])
        for (rows, _), vectors in zip(images, encoded, strict=True):
            index = torch.tensor(rows, device=self.vectors.device)
            made = vectors.view(len(rows), *self.vectors.shape[1:])
            self.vectors[index] = made.to(self.vectors.dtype)

    def placed(self, embeddings: Tensor, rows: Tensor | None) -> Tensor:
        """Embeddings [T, hidden_size] with those of images put in their places.

        rows: int64 [T], -1 for a token of text; None: all are text
        """
        if rows is None:
            return embeddings
        of_images = self.vectors[:, 0].index_select(0, rows.clamp(min=0))
        return torch.where((rows >= 0)[:, None], of_images, embeddings)

    def deepened(self, hidden: Tensor, rows: Tensor, layer: int) -> Tensor:
        """The residual stream [T, hidden_size] behind layer `layer` < num_deep, with that layer's
        vectors of images added."""
        of_images = self.vectors[:, 1 + layer].index_select(0, rows.clamp(min=0))
        return hidden + of_images.masked_fill((rows < 0)[:, None], 0)
