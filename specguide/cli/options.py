"""Owns the options that several commands share: each one's type and words, and what they come
to."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.cli.config_options import field_option
from specguide.errors import InvalidParams
from specguide.params import SamplingParams

_OUTPUT, _MODEL, _SAMPLING, _SERVER = "What is written", "Model", "Sampling", "Server"

Schema = Annotated[
    Path | None,
    typer.Option(
        help="File with the JSON Schema that the output must match.", rich_help_panel=_OUTPUT
    ),
]
MaxTokens = Annotated[int, field_option(SamplingParams, "max_tokens", _OUTPUT)]
Temperature = Annotated[float, field_option(SamplingParams, "temperature", _SAMPLING)]
Seed = Annotated[int | None, field_option(SamplingParams, "seed", _SAMPLING)]
Model = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a Hugging Face checkpoint; the shipped model when left out.",
        rich_help_panel=_MODEL,
    ),
]
NoSpec = Annotated[
    bool, typer.Option("--no-spec", help="Decode plainly, without drafts.", rich_help_panel=_MODEL)
]
NoGuides = Annotated[
    bool,
    typer.Option(
        "--no-guides",
        help="Refuse requests with a guide: no schemas, no tools. Iterations then have nothing of "
        "the grammar in them.",
        rich_help_panel=_MODEL,
    ),
]
ApiKey = Annotated[
    str,
    typer.Option(
        help="Sent as Authorization: Bearer …", envvar="OPENAI_API_KEY", rich_help_panel=_SERVER
    ),
]


def model_name(model: str | Path | None) -> str:
    """What a model is called over the API: its folder's name."""
    return "specguide-small" if model is None else Path(model).resolve().name


def read_text(path: Path) -> str:
    """Raises InvalidParams where that fails."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParams(f"cannot read {path}: {error}") from error


def read_json(path: Path) -> Any:
    """Raises InvalidParams where the file is no JSON."""
    try:
        return json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidParams(f"{path} is not valid JSON: {error}") from error


def write_text(path: Path, text: str) -> None:
    """With an end of line. Raises InvalidParams where that fails."""
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise InvalidParams(f"cannot write {path}: {error}") from error


def listed(text: str, known: Collection[str] | None = None) -> list[str]:
    """The parts of a comma-separated list. Raises InvalidParams where there are none, or one is not
    `known`."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    strange = next((part for part in parts if known is not None and part not in known), None)
    if strange is not None or not parts:
        raise InvalidParams(
            f"{strange if parts else text!r} is none of {', '.join(known or ())}"
            if known
            else "a comma-separated list is wanted, and it is empty"
        )
    return parts


def listed_numbers(text: str) -> list[int]:
    """Whole numbers of a comma-separated list, ascending. Raises InvalidParams."""
    strange = next((part for part in listed(text) if not part.isdecimal()), None)
    if strange is not None:
        raise InvalidParams(f"a list of whole numbers is wanted, found {strange!r} in {text!r}")
    return sorted(int(part) for part in listed(text))
