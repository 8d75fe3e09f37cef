"""Owns the choice of which code runs a model: a family of this folder, or transformers' own
modules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from specguide.errors import CheckpointError, InvalidParams
from specguide.inputs.gguf_file import find_gguf
from specguide.inputs.json_fields import check_model_folder, naming, read_json
from specguide.models import registry
from specguide.models.adapters import check_adapters, load_adapters, read_lora
from specguide.models.config import ModelConfig
from specguide.models.decoder import Decoder
from specguide.models.multimodal import (
    is_multimodal,
    is_of_encoder,
    text_fields,
    text_name,
    warn_of_encoders,
)
from specguide.models.staged import StagedDecoder
from specguide.models.transformers_config import known_to_transformers, read_transformers_config
from specguide.models.transformers_model import TransformersDecoder
from specguide.models.weights import check_tied, check_weights, load_weights, weight_files
from specguide.parallel import ONE_RANK, ONE_STAGE, Ranks, Stage

MODEL_IMPLS = ("auto", "native", "transformers")


def read_config(
    folder: str | Path, quantization: str | None = None, model_impl: str = "auto"
) -> ModelConfig:
    """See registry.read_config.

    model_impl: one of MODEL_IMPLS; "auto": transformers' modules if no family has the architecture.
                Raises InvalidParams for an unknown one.
    """
    folder = Path(folder)
    if not _is_for_transformers(folder, model_impl):
        return registry.read_config(folder, quantization)
    return registry.quantized(read_transformers_config(folder), quantization)


def load_decoder(
    folder: str | Path,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    *,
    max_positions: int | None = None,
    quantization: str | None = None,
    model_impl: str = "auto",
    ranks: Ranks = ONE_RANK,
    stage: Stage = ONE_STAGE,
    adapters: Sequence[Path] = (),
    reads_images: bool = False,
) -> Decoder:
    """See Decoder.load and `read_config`. Warns if transformers' modules run the model because no
    family supports it.

    reads_images: the caller loads the folder's encoder, so nothing is to be said of it
    """
    folder = Path(folder)
    if _is_of_several_kinds(folder) and not reads_images:
        warn_of_encoders(folder)
    if not _is_for_transformers(folder, model_impl):
        kind = Decoder if stage.num == 1 else StagedDecoder
        return kind.load(
            folder,
            device,
            dtype,
            max_positions=max_positions,
            quantization=quantization,
            ranks=ranks,
            stage=stage,
            adapters=adapters,
        )
    _refuse_ranks(ranks, stage)
    config = read_config(folder, quantization, "transformers")
    if model_impl == "auto":
        warnings.warn(
            f"{config.architecture} has no native implementation here, so transformers' modules "
            "run it, more slowly (see model_impl)",
            UserWarning,
            stacklevel=2,
        )
    return _load_transformers(folder, config, device, dtype, max_positions, adapters)


def _load_transformers(
    folder: Path,
    config: ModelConfig,
    device: torch.device | str,
    dtype: torch.dtype,
    max_positions: int | None,
    adapters: Sequence[Path],
) -> TransformersDecoder:
    files = weight_files(folder)
    build = partial(TransformersDecoder, config, lora=read_lora(adapters))
    skeleton = build(device="meta", max_positions=1)
    skeleton.check_head()
    expected = skeleton.destinations()

    def rename(name: str) -> str:
        # another name that GPT-NeoX has in older checkpoints and some versions of transformers
        present = "lm_head.weight" if name == "embed_out.weight" else text_name(name)
        return name if name in expected else present

    def ignored(name: str) -> bool:
        return skeleton.is_left_aside(name) or (config.has_encoders and is_of_encoder(name))

    check_weights(files, expected, ignored=ignored, rename=rename)
    check_adapters(adapters, skeleton.adapter_destinations(), ignored=ignored)
    decoder = build(device=device, dtype=dtype, max_positions=max_positions)
    load_weights(files, decoder.destinations(), rename=rename)
    load_adapters(adapters, decoder.adapter_destinations())
    if decoder.lm_head.name is None:
        check_tied(files, decoder.embedding, rename=rename)
    return decoder


def _refuse_ranks(ranks: Ranks, stage: Stage) -> None:
    for param, is_set in (
        ("tensor_parallel_size", ranks.size > 1),
        ("pipeline_parallel_size", stage.num > 1),
    ):
        if is_set:
            raise InvalidParams(
                "a model that is run by transformers' modules runs on one rank only: leave "
                f"{param} out, or use a model with a native implementation",
                param=param,
            )


def _is_for_transformers(folder: Path, model_impl: str) -> bool:
    if model_impl not in MODEL_IMPLS:
        raise InvalidParams(
            f"model_impl {model_impl!r} is unknown; known: {', '.join(MODEL_IMPLS)}",
            param="model_impl",
        )
    if model_impl == "native" or find_gguf(folder) is not None:
        return False
    if model_impl == "transformers":
        return True
    check_model_folder(folder)
    fields = _fields(folder)
    if is_multimodal(fields):
        with naming(folder / "config.json"):
            fields = text_fields(folder, fields)
    names = fields.get("architectures")
    if not isinstance(names, list) or any(str(name) in registry.FAMILIES for name in names):
        return False
    return bool(names) and known_to_transformers(fields) is not None


def _is_of_several_kinds(folder: Path) -> bool:
    return find_gguf(folder) is None and is_multimodal(_fields(folder))


def _fields(folder: Path) -> Mapping[str, Any]:
    """The fields of config.json. Empty if the file cannot be read; whoever needs it raises the
    error."""
    try:
        return read_json(folder / "config.json")
    except CheckpointError:
        return {}
