"""Owns the options that several commands share: their types, their help, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.cli.config_options import ConfigOptions
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guide.ready_grammars import MARK
from specguide.host.release import extra
from specguide.params import SamplingParams

API_KEY_VARIABLE = "OPENAI_API_KEY"
_SAMPLED = ("max_tokens", "temperature", "seed", "lora")

Model = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a Hugging Face checkpoint; the shipped model when left out",
        rich_help_panel="Model",
    ),
]
ApiKey = Annotated[
    str,
    typer.Option(
        help="Sent as Authorization: Bearer …", envvar=API_KEY_VARIABLE, rich_help_panel="Server"
    ),
]
SAMPLING = ConfigOptions(
    SamplingParams,
    "Sampling",
    {entry.name: None for entry in fields(SamplingParams) if entry.name not in _SAMPLED},
    {"max_tokens": 512},
)


@dataclass(frozen=True)
class GuideFiles:
    """What the output must match; at most one of these.

    schema:  file with the JSON Schema that the output must match, or @NAME, a ready one
    regex:   regular expression that the whole output must match
    grammar: file with an EBNF or Lark grammar, or @NAME, a ready one ("specguide grammars list")
    """

    schema: Path | None = None
    regex: str | None = None
    grammar: Path | None = None

    def guide(self) -> Guide | None:
        """The guide, if one is given. Raises InvalidGuide for several, InvalidParams for a file
        that cannot be read."""
        given: dict[str, Any] = {
            "json_schema": self.schema and _text_or_name(self.schema),
            "regex": self.regex,
            "grammar": self.grammar and _text_or_name(self.grammar),
        }
        given = {kind: value for kind, value in given.items() if value is not None}
        return Guide(**given) if given else None


def _text_or_name(path: Path) -> str:
    """The name of a ready grammar as it is; else the text of the file."""
    return str(path) if str(path).startswith(MARK) else read_text(path)


WRITTEN = ConfigOptions(GuideFiles, "What is written")


bench_libraries = partial(extra, "bench", "this")
"""A context for imports that only benchmarks need."""


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark. Raises InvalidParams where it
    cannot be read."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParams(f"cannot read {path}: {error}") from error


def read_json(path: Path) -> Any:
    """The JSON in a file. Raises InvalidParams where it is not JSON."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise InvalidParams(f"{path} is not valid JSON: {error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text and a line end. Raises InvalidParams where that fails."""
    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise InvalidParams(f"cannot write {path}: {error}") from error


def listed(option: str, text: str, known: Collection[str] | None = None) -> list[str]:
    """The parts of an option's comma-separated list. Raises InvalidParams where it is empty, or a
    part is not in `known`."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    strange = next((part for part in parts if known is not None and part not in known), None)
    if strange is not None or not parts:
        raise InvalidParams(
            f"{option}: {(strange if parts else text)!r} is not one of {', '.join(known or ())}"
            if known
            else f"{option}: the comma-separated list is empty: give at least one value"
        )
    return parts


def listed_numbers(option: str, text: str, least: int = 0) -> list[int]:
    """The whole numbers of an option's comma-separated list, ascending. Raises InvalidParams where
    one is less than `least`, or not a number."""
    parts = listed(option, text)
    for part in parts:
        if not part.isdecimal() or int(part) < least:
            raise InvalidParams(
                f"{option} must be a comma-separated list of whole numbers ≥ {least}, found "
                f"{part!r} in {text!r}"
            )
    return sorted(map(int, parts))
