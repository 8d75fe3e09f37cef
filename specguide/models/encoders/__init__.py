"""Encoders of images: from what a processor makes of an image to vectors for its tokens."""

from specguide.models.encoders.image_encoder import ImageEncoder
from specguide.models.encoders.image_vectors import ImageVectors

__all__ = ["ImageEncoder", "ImageVectors"]
