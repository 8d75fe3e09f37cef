"""Images in prompts: how they are decoded, prepared for a model, and put among its tokens."""

from specguide.tokenizer.images.decoding import white_square
from specguide.tokenizer.images.families import image_token_id, reads_images
from specguide.tokenizer.images.parts import ImageParts, pil_image
from specguide.tokenizer.images.reader import ImageReader

__all__ = [
    "ImageParts",
    "ImageReader",
    "image_token_id",
    "pil_image",
    "reads_images",
    "white_square",
]
