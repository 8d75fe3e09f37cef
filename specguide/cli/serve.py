"""Owns `specguide serve`: the API server of one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specguide.cli.options import Head, NoSpec, NumDraftTokens, SpecMethod, model_name, spec_config
from specguide.config import EngineConfig, GuideConfig


def serve(
    model: Annotated[Path | None, typer.Argument(help="Checkpoint folder; the shipped model when left out.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    served_model_name: Annotated[str | None, typer.Option(help="What clients call it; the folder's name.")] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="A key that requests must carry; may be repeated.")] = None,
    tool_format: Annotated[str | None, typer.Option(help="How the model writes tool calls; from its template.")] = None,
    spec_method: SpecMethod = None,
    head: Head = None,
    no_spec: NoSpec = False,
    num_draft_tokens: NumDraftTokens = 3,
    guide_backend: Annotated[str, typer.Option(help="auto, llguidance or xgrammar.")] = "auto",
    max_batch_size: Annotated[int, typer.Option(help="Requests that run at once.")] = 64,
    max_waiting: Annotated[int, typer.Option(help="Requests beyond these; further ones are told to come back.")] = 1024,
    max_model_len: Annotated[int | None, typer.Option(help="Longest prompt plus output; the model's own.")] = None,
    max_body_bytes: Annotated[int, typer.Option(help="Largest request body.")] = 4 << 20,
) -> None:
    """Serve the OpenAI API over HTTP: chat, completions, structured output and tools."""
    import uvicorn

    from specguide.engine import AsyncEngine, Engine  # brings torch in; --help stays quick
    from specguide.server.app import create_app
    from specguide.server.config import ServerConfig
    from specguide.server.connection import uvicorn_config

    engine = Engine(EngineConfig(
        model, spec=spec_config(model, spec_method, head, num_draft_tokens, no_spec=no_spec),
        guide=GuideConfig(backend=guide_backend), max_batch_size=max_batch_size, max_model_len=max_model_len))
    engine.warm_up()
    config = ServerConfig(served_model_name or model_name(model), tuple(api_key or ()), tool_format, max_body_bytes)
    server = create_app(AsyncEngine(engine, max_waiting=max_waiting), config)
    uvicorn.Server(uvicorn_config(server, config, host=host, port=port, log_level="info")).run()
