"""Owns `specguide run-batch`: it answers a file of requests into another file."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import fields, replace
from typing import Annotated, BinaryIO

import typer
from tqdm import tqdm

from specguide.cli.config_options import (
    CACHE,
    ENGINE,
    GUIDE,
    SPEC,
    WITHOUT,
    ConfigOptions,
    Given,
    engine_config,
    takes,
)
from specguide.cli.options import Model
from specguide.errors import InvalidParams
from specguide.server.config import SERVED_ENGINE, SERVED_GUIDES, ServerConfig, model_name

_OF_REQUESTS = (
    *("tool_format", "exclude_uncallable_tools", "reasoning_format", "allow_special_tokens"),
    *("strict_fields", "openai_strict", "closed_objects", "sampling_defaults"),
    *("max_body_bytes", "max_tools", "max_body_values", "max_samples", "max_messages"),
    *("max_entries", "max_stop_strings", "max_stop_chars", "allow_client_templates"),
    *("template_timeout_s", "template_max_bytes"),
)
"""The fields of a server's configuration that say how requests are read."""
_SERVER = ConfigOptions(
    ServerConfig,
    "Requests",
    {"model_name": "served_model_name", "model_aliases": "served_model_alias"}
    | {
        entry.name: None
        for entry in fields(ServerConfig)
        if entry.name not in (*_OF_REQUESTS, "model_name", "model_aliases")
    },
    {"model_name": None},
)
_ENGINE = replace(ENGINE, defaults=SERVED_ENGINE)
_GUIDE = replace(GUIDE, defaults=SERVED_GUIDES)


@takes(_SERVER, WITHOUT, SPEC, _ENGINE, CACHE, _GUIDE)
def run_batch(
    *,
    input_file: Annotated[
        typer.FileBinaryRead,
        typer.Option(
            "--input-file", "-i", metavar="FILE", help="Requests, one per line; -: standard input."
        ),
    ],
    output_file: Annotated[
        typer.FileBinaryWrite,
        typer.Option(
            "--output-file",
            "-o",
            metavar="FILE",
            lazy=True,
            help="File for the answers, one per line; -: standard output.",
        ),
    ],
    model: Model = None,
    given: Given,
) -> None:
    """Answer the requests of a file, in the format of OpenAI's Batch API. Each answer is written as
    soon as it is there; its custom_id names its request."""
    from specguide.server.batches.run import run_batch as run  # takes time to import
    from specguide.server.processes.plans import ServicePlan

    given[ServerConfig]["model_name"] = given[ServerConfig]["model_name"] or model_name(model)
    plan = ServicePlan(engine_config(model, given, _GUIDE), ServerConfig(**given[ServerConfig]))
    _refuse_same(input_file, output_file)
    output_file.flush()  # opens the file: an error is reported before all the work
    with tqdm(unit="request") as bar:
        counts = run(plan, input_file, output_file, tell=_tell, done=bar.update)
    _tell(f"{counts.num_answered} answered, {counts.num_refused} refused")


def _refuse_same(requests: BinaryIO, answers: BinaryIO) -> None:
    """Raises InvalidParams where answers would overwrite the requests."""
    with suppress(OSError):  # there is no such file yet, or it is not a file
        if os.path.samefile(requests.name, answers.name):
            raise InvalidParams(
                f"{answers.name} has the requests: give another file for the answers",
                param="output_file",
            )


def _tell(text: str) -> None:
    tqdm.write(text, file=sys.stderr)
