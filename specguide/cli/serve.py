"""Owns `specguide serve`: the API server of one model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

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
from specguide.cli.options import SERVER_KEYS_VARIABLE, model_name
from specguide.server.config import Exposure, ServerConfig

_SERVER = ConfigOptions(
    ServerConfig,
    "Server",
    {
        "model_name": "served_model_name",
        "model_aliases": "served_model_alias",
        "api_keys": "api_key",
    },
    {"model_name": None},
    {"api_keys": SERVER_KEYS_VARIABLE},
)
_EXPOSURE = ConfigOptions(Exposure, "Exposure")
_ENGINE = replace(ENGINE, defaults={"max_batch_size": 64})
_GUIDE = replace(GUIDE, defaults={"isolate_compiles": True})  # guides come from strangers


@takes(_SERVER, _EXPOSURE, WITHOUT, SPEC, _ENGINE, CACHE, _GUIDE)
def serve(
    model: Annotated[
        Path | None, typer.Argument(help="Checkpoint folder; the shipped model when left out.")
    ] = None,
    *,
    given: Given,
) -> None:
    """Serve the OpenAI API over HTTP: chat, completions, structured output and tools."""
    from specguide.server.supervisor import ServicePlan, Supervisor  # takes time to import

    given[ServerConfig]["model_name"] = given[ServerConfig]["model_name"] or model_name(model)
    server = ServerConfig(**given[ServerConfig], exposure=Exposure(**given[Exposure]))
    plan = ServicePlan(engine_config(model, given), server)
    raise typer.Exit(Supervisor(plan, partial(typer.echo, err=True)).run())
