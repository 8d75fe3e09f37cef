"""Owns how the JSON files of a model folder are read. Each fault is a CheckpointError that names
the file or the field."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError

LARGEST_FILE = 256 * 2**20
"""Bytes. The index of a model of a thousand shards has a few MiB."""

LARGEST_SIZE = 2**31 - 1
"""Largest count or size in a file, so that it fits an int32."""

_OTHER_FORMS = {
    "snapshots": "is a folder of the Hugging Face cache; give the folder within its 'snapshots'",
    "params.json": "has params.json and no config.json, so it is in the format of Meta or Mistral; "
    "download the model in Hugging Face's format",
}
"""What a folder without config.json is, by a file or folder that it holds."""
_MOST_FOLDERS = 8
_LFS_POINTER = b"version https://git-lfs"
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 60


@contextmanager
def naming(place: Path) -> Iterator[None]:
    """Put the file or folder before the message of a CheckpointError that is raised inside."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{place}: {error}") from None


def check_folder(folder: Path) -> None:
    """Raise CheckpointError where there is no such folder, or where it holds a LoRA adapter as PEFT
    stores it: the model would run without its adapter."""
    check_is_folder(folder)
    if not is_file(folder / "config.json"):
        for name, form in _OTHER_FORMS.items():
            if (folder / name).exists():
                raise CheckpointError(f"{folder}: {form}")
    if is_file(folder / "adapter_config.json"):
        raise CheckpointError(
            f"{folder}: holds an adapter (adapter_config.json) and no model of its own: give the "
            "folder of the model that it was trained for, and the adapter as lora_modules "
            "(--lora-modules NAME=FOLDER)"
        )


def check_is_folder(folder: Path, kind: str = "model") -> None:
    """Raise CheckpointError where there is no such folder. kind: what it should hold"""
    try:
        is_there = folder.is_dir()
    except OSError:  # a name that is too long for the file system
        is_there = False
    if not is_there:
        raise CheckpointError(f"{folder}: is not a folder{_mend(folder, kind)}")


def check_model_folder(folder: Path) -> None:
    """`check_folder`, and raise CheckpointError where there is no config.json."""
    check_folder(folder)
    if not (folder / "config.json").exists():
        raise CheckpointError(
            f"{folder}: holds no config.json, which a model in Hugging Face's format has"
            f"{folders_within(folder, 'config.json')}"
        )


def folders_within(folder: Path, file: str) -> str:
    """The folders in it that hold such a file, with "; " in front; "" where there are none."""
    found = sorted(place.parent.name for place in folder.glob(f"*/{file}"))
    return f"; give one of its folders: {', '.join(found[:_MOST_FOLDERS])}" if found else ""


def _mend(folder: Path, kind: str) -> str:
    """What to do about a missing folder, with "; " in front; "" where nothing is known."""
    if is_file(folder):
        return "; give the folder that holds this file"
    if folder.parts[:1] == ("~",):
        return f"; a ~ is not read here: give {folder.expanduser()}"
    is_of_hub = len(folder.parts) == 2 and folder.parts[0][0] not in "/.~"
    download = f"; `hf download {folder} --local-dir FOLDER` downloads the {kind} into a folder"
    return download if is_of_hub else ""


def is_file(path: Path) -> bool:
    """True for a regular file; False for a folder, a pipe, and a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def check_fetched(path: Path) -> None:
    """Raise CheckpointError for a pointer of Git LFS in place of the file itself."""
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise CheckpointError(
                f"{path}: is a Git LFS pointer, not the file itself; run `git lfs pull` in its "
                "folder to fetch it"
            )


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises CheckpointError where the file holds none."""
    try:
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path}: is not a file")
        if path.stat().st_size > LARGEST_FILE:
            raise CheckpointError(
                f"{path}: has {path.stat().st_size} bytes, and a JSON file may have at most "
                f"{LARGEST_FILE}"
            )
        value = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=_without_contradiction
        )
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: is not JSON: {error}") from None
    except RecursionError:
        raise CheckpointError(f"{path}: is nested too deeply to be read") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: holds a {type(value).__name__}, not a JSON object")
    return value


def shown(value: Any) -> str:
    """A value for an error message: its repr, shortened where it is long or deep."""
    return _SHOWN.repr(value)


def mapping(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object within an object; a missing or null one is empty. Raises CheckpointError."""
    value = config.get(name)
    if value is not None and not isinstance(value, dict):
        raise CheckpointError(f"{name!r} must be a JSON object, found {shown(value)}")
    return value or {}


def positive_int(
    config: Mapping[str, Any], name: str, default: int | None = None, *, at_most: int = LARGEST_SIZE
) -> int:
    """An integer of 1 … `at_most`; a missing or null one is `default`. Raises CheckpointError."""
    value = config.get(name)
    value = default if value is None else value
    if value is None:
        raise CheckpointError(f"{name!r} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"{name!r} must be an integer ≥ 1, found {shown(value)}")
    if value > at_most:
        raise CheckpointError(f"{name!r} must be at most {at_most}, found {shown(value)}")
    return value


def positive_number(
    config: Mapping[str, Any], name: str, default: float | None = None, *, at_most: float = math.inf
) -> float:
    """A finite number > 0; a missing or null one is `default`. Raises CheckpointError."""
    value = config.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CheckpointError(f"{name!r} must be a number, found {shown(value)}")
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not 0 < number < math.inf:
        raise CheckpointError(f"{name!r} must be a finite number > 0, found {shown(value)}")
    if number > at_most:
        raise CheckpointError(f"{name!r} must be at most {at_most}, found {shown(value)}")
    return number


def flag(config: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """true or false; a missing or null one is `default`. Raises CheckpointError."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise CheckpointError(f"{name!r} must be true or false, found {shown(value)}")
    return value


def token_ids(
    config: Mapping[str, Any], name: str, vocab_size: int = LARGEST_SIZE
) -> tuple[int, ...] | None:
    """Token ids as Hugging Face writes them, one id or a list; None where they are missing or null.
    Raises CheckpointError."""
    value = config.get(name)
    if value is None:
        return None
    ids = tuple(value) if isinstance(value, list) else (value,)
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab_size:
            raise CheckpointError(
                f"{name!r} has {shown(token)}, which is not a token id below {vocab_size}"
            )
    return ids


def _without_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields as a dict. Raises ValueError where a name comes twice with different values."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            raise ValueError(f"{shown(name)} is given twice, with different values")
        found[name] = value
    return found
