"""Owns `specguide serve`: the API server of one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.cli.options import (
    Adaptive,
    Head,
    NoSpec,
    NumDraftTokens,
    NumForcedTokens,
    SpecMethod,
    Tree,
    model_name,
    spec_config,
)
from specguide.config import EngineConfig, GuideConfig


def _limit(words: str) -> Any:
    return typer.Option(help=words, rich_help_panel="Limits")


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
    num_forced_tokens: NumForcedTokens = 0,
    adaptive: Adaptive = False,
    tree: Tree = None,
    guide_backend: Annotated[str, typer.Option(help="auto, llguidance or xgrammar.")] = "auto",
    max_batch_size: Annotated[int, typer.Option(help="Requests that run at once.")] = 64,
    max_waiting: Annotated[int, typer.Option(help="Requests beyond these; further ones are told to come back.")] = 1024,
    max_model_len: Annotated[int | None, typer.Option(help="Longest prompt plus output; the model's own.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, cpu; a GPU where there is one.")] = None,
    dtype: Annotated[str | None, typer.Option(help="bfloat16 on a GPU, else float32.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Record a timeline, which the playground shows.")] = False,
    compile_timeout_s: Annotated[float, _limit("Longest compile of a grammar, seconds.")] = 10.0,
    max_whitespace: Annotated[int, _limit("Most whitespace between two JSON tokens; 0 is compact.")] = 8,
    max_body_bytes: Annotated[int, _limit("Largest request body.")] = 4 << 20,
    max_tools: Annotated[int, _limit("Most tools of a request.")] = 1024,
    max_samples: Annotated[int, _limit("Most answers of a request, prompts times n.")] = 128,
    max_messages: Annotated[int, _limit("Most messages of a request.")] = 4096,
    max_connections: Annotated[int, _limit("Most connections; one more is told 503.")] = 4096,
    header_timeout_s: Annotated[float, _limit("Longest time until a request's header is there.")] = 10.0,
    body_timeout_s: Annotated[float, _limit("Longest time until its body is there.")] = 60.0,
    write_timeout_s: Annotated[float, _limit("Longest time that an answer may lie unread.")] = 30.0,
    drain_s: Annotated[float, _limit("Time that requests have to end when the server is stopped.")] = 30.0,
) -> None:
    """Serve the OpenAI API over HTTP: chat, completions, structured output and tools."""
    import uvicorn

    from specguide.engine import AsyncEngine, Engine  # brings torch in; --help stays quick
    from specguide.server.app import create_app
    from specguide.server.config import ServerConfig
    from specguide.server.connection import uvicorn_config

    spec = spec_config(model, spec_method, head, num_draft_tokens, num_forced_tokens, tree, adaptive=adaptive,
                       no_spec=no_spec)
    engine = Engine(EngineConfig(
        model, spec=spec,
        guide=GuideConfig(backend=guide_backend, compile_timeout_s=compile_timeout_s, max_whitespace=max_whitespace),
        max_batch_size=max_batch_size, max_model_len=max_model_len, device=device, dtype=dtype, trace=trace))
    engine.warm_up()
    config = ServerConfig(
        served_model_name or model_name(model), tuple(api_key or ()), tool_format, max_body_bytes=max_body_bytes,
        max_tools=max_tools, max_samples=max_samples, max_messages=max_messages, max_connections=max_connections,
        header_timeout_s=header_timeout_s, body_timeout_s=body_timeout_s, write_timeout_s=write_timeout_s,
        drain_s=drain_s)
    server = create_app(AsyncEngine(engine, max_waiting=max_waiting), config)
    uvicorn.Server(uvicorn_config(server, config, host=host, port=port, log_level="info")).run()
