"""Owns how LoRA adapters are named in a configuration."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from os.path import expanduser
from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams


def lora_texts(given: Any) -> Any:
    """What `adapter_folders` reads, for the folders of adapters by their names; anything else as it
    is."""
    if not isinstance(given, Mapping):
        return tuple(given) if isinstance(given, list) else given
    return tuple(json.dumps({"name": name, "path": str(path)}) for name, path in given.items())


def adapter_folders(lora_modules: Sequence[str]) -> dict[str, Path]:
    """The folder of each adapter by its name, from texts NAME=FOLDER, or JSON objects with "name"
    and "path" as in vLLM. A folder may begin with ~, which no shell reads there. Raises
    InvalidParams for any other text, and a name that comes twice."""
    folders: dict[str, Path] = {}
    for written in lora_modules:
        name, folder = _read(written)
        if name in folders:
            raise InvalidParams(
                f"lora_modules has two adapters called {name!r}: give each a name of its own",
                param="lora_modules",
            )
        folders[name] = Path(expanduser(folder))
    return folders


def check_adapter(name: str | None, adapters: Collection[str]) -> None:
    """Raise InvalidParams if a request names an adapter that is not among the engine's."""
    if name is not None and name not in adapters:
        known = ", ".join(map(repr, adapters)) or "none"
        raise InvalidParams(
            f"lora {name!r} is no adapter of this engine, which has {known}: give it to the engine "
            "in lora_modules",
            param="lora",
        )


def _read(written: str) -> tuple[str, str]:
    name, _, folder = written.partition("=")
    if written.startswith("{"):
        name = folder = ""
        with suppress(ValueError, RecursionError, KeyError, TypeError):
            fields = json.loads(written)
            name, folder = fields["name"], fields["path"]
    if not (isinstance(name, str) and isinstance(folder, str) and name and folder):
        raise InvalidParams(
            f"lora_modules must have texts NAME=FOLDER, found {written!r}", param="lora_modules"
        )
    return name, folder
