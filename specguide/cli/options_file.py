"""Owns the file of options that a command takes as `--config FILE`, in YAML, as vLLM has it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams

OPTION = "--config"
_MODEL = ("model", "model-tag", "model_tag")


def with_file(args: list[str], take_many: Collection[str]) -> list[str]:
    """The arguments, with the options of each `--config FILE` in front: of an option that comes
    twice the later one counts. Raises InvalidParams for a file that is missing or cannot be read.

    take_many: options that all values follow, where a file has a list; other options are repeated
    """
    in_file, rest, left = list[str](), list[str](), iter(args)
    for arg in left:
        written, has_value, value = arg.partition("=")
        if arg == "--":  # only arguments follow
            return [*in_file, *rest, arg, *left]
        if written != OPTION:
            rest.append(arg)
            continue
        file = value if has_value else next(left, "")
        if not file:
            raise InvalidParams(f"{OPTION} needs a file: {OPTION} FILE", param="config")
        in_file += _arguments(file, take_many)
    return in_file + rest


def _arguments(file: str, take_many: Collection[str]) -> Iterator[str]:
    for name, value in _read(file).items():
        option = "--model" if name in _MODEL else f"--{str(name).replace('_', '-')}"
        if isinstance(value, bool):
            yield option if value else f"--no-{option[2:]}"
        elif isinstance(value, list) and option in take_many:
            yield from (option, *map(str, value))
        elif value is not None:
            for one in value if isinstance(value, list) else [value]:
                yield f"{option}={json.dumps(one) if isinstance(one, dict) else one}"


def _read(file: str) -> Mapping[Any, Any]:
    import yaml

    try:
        options = yaml.safe_load(Path(file).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidParams(f"{OPTION}: {file} cannot be read: {error}", param="config") from error
    if not isinstance(options, dict):
        raise InvalidParams(
            f"{OPTION}: {file} must have options in YAML, as max-model-len: 4096", param="config"
        )
    return options
