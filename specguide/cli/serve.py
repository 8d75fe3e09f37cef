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
    ConfigOptions,
    Given,
    engine_config,
    takes,
)
from specguide.cli.options import NoGuides, NoSpec, model_name
from specguide.server.config import ServerConfig

_SERVER = ConfigOptions(
    ServerConfig, "Limits of the server", {"model_name": None, "api_keys": "api_key"}
)
_ENGINE = replace(ENGINE, defaults={"max_batch_size": 64})
_GUIDE = replace(GUIDE, defaults={"isolate_compiles": True})  # guides come from strangers


@takes(_SERVER, SPEC, _ENGINE, CACHE, _GUIDE)
def serve(
    model: Annotated[
        Path | None, typer.Argument(help="Checkpoint folder; the shipped model when left out.")
    ] = None,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    served_model_name: Annotated[
        str | None, typer.Option(help="What clients call it; the folder's name.")
    ] = None,
    max_waiting: Annotated[
        int,
        typer.Option(help="Requests beyond max_batch_size; further ones are told to come back."),
    ] = 1024,
    no_spec: NoSpec = False,
    no_guides: NoGuides = False,
    given: Given,
) -> None:
    """Serve the OpenAI API over HTTP: chat, completions, structured output and tools."""
    from specguide.server.supervisor import ServicePlan, Supervisor  # takes time to import

    plan = ServicePlan(
        engine_config(model, given, no_spec=no_spec, no_guides=no_guides),
        ServerConfig(served_model_name or model_name(model), **given[ServerConfig]),
        host,
        port,
        max_waiting,
    )
    raise typer.Exit(Supervisor(plan, partial(typer.echo, err=True)).run())
