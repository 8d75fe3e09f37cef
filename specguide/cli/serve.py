"""Owns `specguide serve`: the API server of one model."""

from __future__ import annotations

from dataclasses import replace
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
from specguide.cli.options import model_name
from specguide.server.config import ServerConfig

_SERVER = ConfigOptions(
    ServerConfig,
    "Server",
    {"model_name": "served_model_name", "api_keys": "api_key"},
    {"model_name": None},
)
_ENGINE = replace(ENGINE, defaults={"max_batch_size": 64})
_GUIDE = replace(GUIDE, defaults={"isolate_compiles": True})  # guides come from strangers


@takes(_SERVER, WITHOUT, SPEC, _ENGINE, CACHE, _GUIDE)
def serve(
    model: Annotated[
        Path | None, typer.Argument(help="Checkpoint folder; the shipped model when left out.")
    ] = None,
    *,
    given: Given,
) -> None:
    """Serve the OpenAI API over HTTP: chat, completions, structured output and tools."""
    from specguide.engine import AsyncEngine, Engine  # brings torch in; --help stays quick
    from specguide.server.app import create_app
    from specguide.server.stop import StoppableServer

    given[ServerConfig]["model_name"] = given[ServerConfig]["model_name"] or model_name(model)
    config = ServerConfig(**given[ServerConfig])
    engine = Engine(engine_config(model, given))
    typer.echo(str(engine.cache_size), err=True)
    engine.warm_up()
    app = create_app(AsyncEngine(engine, max_waiting=config.max_waiting), config)
    StoppableServer(app, config, host=config.host, port=config.port, log_level="info").run()
