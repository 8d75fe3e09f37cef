"""Owns ImageEncoder: the encoder of a multimodal folder, run by transformers' modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import ModuleList
from torch.nn.functional import pad

from specguide.errors import CheckpointError
from specguide.host.transformers_import import import_transformers, quiet_transformers
from specguide.images import PreparedImage
from specguide.models.encoders import packed_modules
from specguide.models.encoders.captured_blocks import MAX_TOKENS, CapturedBlocks
from specguide.models.multimodal import is_of_encoder, text_name

_TEXT_MODULES = ("language_model", "text_model")
_SMALL = {"num_hidden_layers": 0, "layer_types": [], "vocab_size": 8, "pad_token_id": None}
"""Fields of a text model of which nothing is loaded: only the encoder is used."""


class ImageEncoder:
    """The tower that sees images, and what projects its output to the text model's width.

    num_deep:    further vectors of each place, added behind as many of the first layers (DeepStack)
    hidden_size: of the text model
    """

    def __init__(self, model: Any, hidden_size: int) -> None:
        """model: transformers' model without its text model, on its device"""
        self._model, self.hidden_size = model, hidden_size
        deep = getattr(model.config.vision_config, "deepstack_visual_indexes", None) or ()
        self.num_deep = len(deep)
        # Qwen's encode several images in one pass, without padding
        self._is_packed = hasattr(model, "visual")
        if self._is_packed:
            packed_modules.replace_modules(model.visual)
        self._is_captured = model.device.type == "cuda" and model.dtype != torch.float32
        if self._is_captured:
            blocks = max((m for m in model.modules() if isinstance(m, ModuleList)), key=len)
            rounded = packed_modules.rounded_bounds if self._is_packed else None
            CapturedBlocks(blocks, model.device, rounded)

    @classmethod
    def load(cls, folder: Path, device: torch.device, dtype: torch.dtype) -> ImageEncoder:
        """Load the encoder of a multimodal folder. Raises CheckpointError that says what is
        missing, or that its weights are quantized."""
        import_transformers()
        from transformers import AutoConfig, AutoModelForImageTextToText

        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        text = config.get_text_config()
        hidden_size = text.hidden_size
        for name, value in _SMALL.items():
            setattr(text, name, value)
        config.__dict__.pop("quantization_config", None)
        config.tie_word_embeddings = False
        try:
            with quiet_transformers():  # of the text model's tensors, left aside on purpose
                whole, info = AutoModelForImageTextToText.from_pretrained(
                    folder,
                    config=config,
                    dtype=dtype,
                    attn_implementation="sdpa",
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                    trust_remote_code=False,
                    local_files_only=True,
                )
        except Exception as error:  # it checks values in its own ways
            raise CheckpointError(
                f"{folder}: transformers cannot load its encoder: {error}"
            ) from None
        _check_loaded(folder, info, set(whole.state_dict()))
        model = whole.model
        for name in _TEXT_MODULES:
            if hasattr(model, name):
                setattr(model, name, None)
        return cls(model.to(device).eval().requires_grad_(False), hidden_size)

    @torch.inference_mode()
    def encode(self, images: Sequence[PreparedImage]) -> list[Tensor]:
        """The vectors of each image, [places, (1 + num_deep) · hidden_size], on the encoder's
        device and in its dtype. Raises CheckpointError where an image has not as many places."""
        packs = [images] if self._is_packed else [[image] for image in images]
        return [vectors for pack in packs if pack for vectors in self._encode(pack)]

    def _encode(self, images: Sequence[PreparedImage]) -> Sequence[Tensor]:
        """The vectors of each of some images, in one pass."""
        device = self._model.device
        arrays = {
            name: _tensor([image.arrays[name] for image in images], device)
            for name in images[0].arrays
        }
        num_filling = self._fill_up(arrays) if self._is_packed and self._is_captured else 0
        # in float32, convolutions are exact, as products are
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            found = self._model.get_image_features(**arrays, return_dict=True)
        deep = found.deepstack_features if self.num_deep else ()
        vectors = torch.cat([self._rows(one) for one in (found.pooler_output, *deep)], dim=1)
        lens = [len(image.places) for image in images]
        num_own = len(vectors) - num_filling
        if num_own != sum(lens):
            raise CheckpointError(
                f"the encoder makes {num_own} vectors of images that have {sum(lens)} places: "
                "the folder's processor and encoder do not fit"
            )
        return vectors[:num_own].split(lens)

    def _fill_up(self, arrays: dict[str, Tensor]) -> int:
        """Add an empty image, so that passes have few numbers of patches. Returns the number of its
        vectors."""
        side = self._model.visual.spatial_merge_size
        num_patches = len(arrays["pixel_values"])
        # eighths of powers of two
        step = max(16 * side * side, 1 << num_patches.bit_length() >> 4)
        num_added = -num_patches % step
        if not num_added or num_patches + num_added > MAX_TOKENS:
            return 0
        grids = arrays["image_grid_thw"]
        grid = grids.new_tensor([[1, side, num_added // side]])
        arrays["pixel_values"] = pad(arrays["pixel_values"], (0, 0, 0, num_added))
        arrays["image_grid_thw"] = torch.cat([grids, grid])
        return num_added // side**2

    def _rows(self, found: Tensor | Iterable[Tensor]) -> Tensor:
        parts = [found] if isinstance(found, Tensor) else found
        return torch.cat([part.reshape(-1, self.hidden_size) for part in parts])


def _tensor(arrays: Sequence[np.ndarray], device: torch.device) -> Tensor:
    """Arrays of PreparedImages, one behind the other."""
    dtype = torch.from_numpy(np.empty(0, arrays[0].dtype)).dtype
    shape = sum(map(len, arrays)), *arrays[0].shape[1:]
    tensor = torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")
    np.concatenate(arrays, out=tensor.numpy())
    tensor = tensor.to(device, non_blocking=True)
    return tensor.view(torch.bfloat16) if dtype == torch.uint16 else tensor


def _check_loaded(folder: Path, info: dict[str, Any], own: set[str]) -> None:
    """Raise CheckpointError unless all tensors of the encoder were read, and no other stands beside
    them. own: names of the model's tensors"""
    modules = {_module(name) for name in own if is_of_encoder(text_name(name))}
    beside = [
        name
        for name in info["unexpected_keys"]
        if {_module(name), f"model.{_module(name)}"} & modules
    ]
    shapes = [str(key[0] if isinstance(key, tuple) else key) for key in info["mismatched_keys"]]
    kinds = {
        "is missing": info["missing_keys"],
        "has another shape": shapes,
        "is not known (quantized encoders are not supported)": beside,
    }
    for problem, names in kinds.items():
        of_encoder = sorted(name for name in names if is_of_encoder(text_name(name)))
        if of_encoder:
            raise CheckpointError(f"{folder}: tensor {of_encoder[0]!r} {problem}")


def _module(name: str) -> str:
    return name.rpartition(".")[0]
