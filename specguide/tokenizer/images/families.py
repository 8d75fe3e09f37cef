"""Owns which families' images are read, and the tokens that stand for an image in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from specguide.errors import CheckpointError
from specguide.inputs.gguf_file import find_gguf
from specguide.inputs.json_fields import naming, read_json, shown

Arrays = Mapping[str, np.ndarray]
"""What an image processor returns for one image."""

_PROCESSOR_FILES: Final = ("preprocessor_config.json", "processor_config.json")
"""Files that say how images are prepared; either will do."""


@dataclass(frozen=True)
class ImageTokens:
    """The tokens that stand for an image.

    texts: entries of the tokenizer, in order; None is the token of an image's vector
    grid:  as in PreparedImage
    """

    texts: list[str | None]
    grid: tuple[int, int] | None = None


@dataclass(frozen=True)
class ImageFamily:
    """How images of a model type become tokens.

    arrays:    the arrays that the encoder reads
    processor: transformers' class that writes the tokens; None: `tokens` does, since that class
               needs torchvision, which nothing else here does
    tokens:    from the folder's configuration and the arrays
    settings:  of that class, or else of the image processor, from the configuration; what the
               folder states of them counts instead
    """

    arrays: tuple[str, ...]
    processor: str | None = None
    tokens: Callable[[Any, Arrays], ImageTokens] | None = None
    settings: Callable[[Any], dict[str, Any]] = lambda config: {}


def _in_grid(config: Any, arrays: Arrays) -> ImageTokens:
    """Qwen's: a token for each square of patches that is merged."""
    side = config.vision_config.spatial_merge_size
    _, height, width = arrays["image_grid_thw"][0].tolist()
    grid = height // side, width // side
    return ImageTokens([None] * (grid[0] * grid[1]), grid)


def _in_rows(config: Any, arrays: Arrays) -> ImageTokens:
    """Pixtral's: a token behind each row, and another behind the last."""
    side = _pixtral_settings(config)["patch_size"]
    height, width = arrays["image_sizes"][0].tolist()
    row = [*[None] * (width // side), "[IMG_BREAK]"]
    return ImageTokens([*(row * (height // side))[:-1], "[IMG_END]"])


def _idefics_settings(config: Any) -> dict[str, Any]:
    num_patches = (config.vision_config.image_size // config.vision_config.patch_size) ** 2
    return {"image_seq_len": num_patches // config.scale_factor**2}


def _llava_settings(config: Any) -> dict[str, Any]:
    """CLIP's towers have a token for the whole image, too."""
    vision = config.vision_config
    return {
        "patch_size": vision.patch_size,
        "vision_feature_select_strategy": getattr(
            config, "vision_feature_select_strategy", "default"
        ),
        "num_additional_image_tokens": int(vision.model_type.startswith("clip")),
    }


def _pixtral_settings(config: Any) -> dict[str, Any]:
    merged = getattr(config, "spatial_merge_size", 1)
    return {"patch_size": config.vision_config.patch_size * merged}


def _internvl_settings(config: Any) -> dict[str, Any]:
    """Tiles, whatever the folder states: transformers' processor overrides it, too."""
    return {"crop_to_patches": True}


def _in_tiles(config: Any, arrays: Arrays) -> ImageTokens:
    """InternVL's: as many tokens for each tile, between two others."""
    num = config.image_seq_length * len(arrays["pixel_values"])
    return ImageTokens(["<img>", *[None] * num, "</img>"])


_QWEN = ImageFamily(("pixel_values", "image_grid_thw"), tokens=_in_grid)
_IDEFICS = ImageFamily(
    ("pixel_values", "pixel_attention_mask"), "Idefics3Processor", settings=_idefics_settings
)
_LLAVA = ImageFamily(("pixel_values",), "LlavaProcessor", settings=_llava_settings)
_PIXTRAL = ImageFamily(("pixel_values", "image_sizes"), tokens=_in_rows, settings=_pixtral_settings)
FAMILIES: Final = {
    "idefics3": _IDEFICS,
    "smolvlm": _IDEFICS,
    "internvl": ImageFamily(("pixel_values",), tokens=_in_tiles, settings=_internvl_settings),
    "llava": _LLAVA,
    "vipllava": _LLAVA,
    "llava_next": ImageFamily(
        ("pixel_values", "image_sizes"), "LlavaNextProcessor", settings=_llava_settings
    ),
    "mistral3": _PIXTRAL,
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe"), _QWEN),
}
"""By `model_type`. Those of Gemma are not among them: tokens of an image see one another in both
directions there."""


def reads_images(folder: Path) -> bool:
    """Whether a folder's model has an encoder that is read here, and says how images are
    prepared."""
    if find_gguf(folder) is not None:
        return False
    has_processor = any((folder / name).exists() for name in _PROCESSOR_FILES)
    return has_processor and model_type(folder) in FAMILIES


def family_of(folder: Path, config: Any) -> ImageFamily:
    """The family of a folder that `reads_images`; config: as in ImageReader. Pixtral's tower reads
    images by its own rules in any model."""
    tower = getattr(config.vision_config, "model_type", None)
    return _PIXTRAL if tower == "pixtral" else FAMILIES[model_type(folder)]


def model_type(folder: Path) -> str:
    """The `model_type` of a folder; "" where config.json cannot be read, which its other readers
    report, or states none."""
    try:
        return str(read_json(folder / "config.json").get("model_type", ""))
    except CheckpointError:
        return ""


def image_token_id(folder: Path) -> int:
    """The token that stands for each vector of an image. Raises CheckpointError."""
    path = folder / "config.json"
    fields = read_json(path)
    stated = fields.get("image_token_id", fields.get("image_token_index"))
    if type(stated) is int and stated >= 0:
        return stated
    with naming(path):
        raise CheckpointError(f"'image_token_id' must be a token id, found {shown(stated)}")
