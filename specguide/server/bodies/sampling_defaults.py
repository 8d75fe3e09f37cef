"""Owns the defaults for sampling that a model's generation_config.json recommends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specguide.engine.setup.target_folder import target_folder
from specguide.errors import CheckpointError, InvalidParams
from specguide.inputs.json_fields import is_file, read_json
from specguide.server.bodies.shared_fields import params_of
from specguide.server.config import ServerConfig

_FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def sampling_defaults(config: ServerConfig, model: str | Path | None) -> Mapping[str, Any]:
    """The values that the model's generation_config.json recommends, for `params_of`; empty where
    the defaults should be OpenAI's. Raises CheckpointError for invalid values."""
    path = target_folder(model) / "generation_config.json"
    if config.sampling_defaults == "openai" or not is_file(path):
        return {}
    stated = read_json(path)
    given = {name: stated[name] for name in _FIELDS if stated.get(name) is not None}
    try:
        params_of(given)
    except InvalidParams as error:
        raise CheckpointError(
            f"{path}: {error}; change it there, or use OpenAI's defaults (--sampling-defaults "
            "openai)"
        ) from error
    return given
