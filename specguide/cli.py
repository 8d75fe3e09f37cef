"""Owns the command line: `specguide generate`, `specguide serve` and `specguide doctor`."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.config import EngineConfig, GuideConfig, SpecConfig
from specguide.doctor import diagnose
from specguide.errors import InvalidParams, SpecguideError, UserError
from specguide.guide import Guide
from specguide.params import SamplingParams

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Generate text that is certain to match a grammar, fast by speculative decoding.")


@app.command()
def generate(
    text: Annotated[str | None, typer.Argument(help="The input text; read from standard input when left out.")] = None,
    schema: Annotated[Path | None, typer.Option(help="File with the JSON Schema that the output must match.")] = None,
    regex: Annotated[str | None, typer.Option(help="Regular expression that the whole output must match.")] = None,
    grammar: Annotated[Path | None, typer.Option(help="File with an EBNF or Lark grammar.")] = None,
    model: Annotated[Path | None, typer.Option(help="Checkpoint folder; the shipped model when left out.")] = None,
    head: Annotated[Path | None, typer.Option(help="Folder of the model's EAGLE3 head.")] = None,
    no_spec: Annotated[bool, typer.Option("--no-spec", help="Decode plainly, without drafts.")] = False,
    num_draft_tokens: Annotated[int, typer.Option(help="K, draft tokens per iteration.")] = 3,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate.")] = 512,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Makes sampling repeatable.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a timeline there, for https://ui.perfetto.dev.")] = None,
    json_stats: Annotated[bool, typer.Option("--json-stats", help="Print the figures as one JSON line.")] = False,
) -> None:
    """Answer TEXT under a grammar: the output on standard output, one line of figures on standard error."""
    from specguide.llm import LLM  # brings torch in; --help stays quick

    params = SamplingParams(max_tokens=max_tokens, temperature=temperature, seed=seed,
                            guide=_guide(schema, regex, grammar))
    text = sys.stdin.read() if text is None else text
    if not text.strip():
        raise InvalidParams("the input text is empty; give it as an argument or on standard input", param="prompt")
    spec = _spec(model, head, num_draft_tokens, no_spec=no_spec)
    llm = LLM(model, spec=spec, max_batch_size=1, trace=trace is not None)
    start = time.perf_counter()
    output, = llm.chat([{"role": "user", "content": text}], params)
    seconds = time.perf_counter() - start
    stats = llm.stats()
    llm.close()
    if output.error is not None:
        raise output.error
    typer.echo(output.text)
    if trace is not None:
        llm.write_trace(trace)
    figures = {
        **asdict(output.metrics), "acceptance_length": output.metrics.acceptance_length,
        "finish_reason": output.finish_reason, "tokens_per_s": output.metrics.output_tokens / seconds,
        "grammar_s": stats.grammar_s, "grammar_hidden_s": stats.grammar_hidden_s,
        "grammar_exposed_s": stats.grammar_exposed_s}
    typer.echo(json.dumps(figures) if json_stats else _line(figures), err=True)


@app.command()
def serve(
    model: Annotated[Path | None, typer.Argument(help="Checkpoint folder; the shipped model when left out.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    served_model_name: Annotated[str | None, typer.Option(help="What clients call it; the folder's name.")] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="A key that requests must carry; may be repeated.")] = None,
    tool_format: Annotated[str | None, typer.Option(help="How the model writes tool calls; from its template.")] = None,
    head: Annotated[Path | None, typer.Option(help="Folder of the model's EAGLE3 head.")] = None,
    no_spec: Annotated[bool, typer.Option("--no-spec", help="Decode plainly, without drafts.")] = False,
    num_draft_tokens: Annotated[int, typer.Option(help="K, draft tokens per iteration.")] = 3,
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
        model, spec=_spec(model, head, num_draft_tokens, no_spec=no_spec), guide=GuideConfig(backend=guide_backend),
        max_batch_size=max_batch_size, max_model_len=max_model_len))
    engine.warm_up()
    name = served_model_name or ("specguide-small" if model is None else model.resolve().name)
    config = ServerConfig(name, tuple(api_key or ()), tool_format, max_body_bytes)
    server = create_app(AsyncEngine(engine, max_waiting=max_waiting), config)
    uvicorn.Server(uvicorn_config(server, config, host=host, port=port, log_level="info")).run()


@app.command()
def doctor() -> None:
    """Say what was found: torch, CUDA, grammar backends, the shipped model. Exits with 1 where something is missing."""
    findings = diagnose()
    for finding in findings:
        typer.echo(f"{'ok  ' if finding.ok else 'FAIL' if finding.needed else 'note'}  {finding.name}: {finding.what}")
        if finding.mend:
            typer.echo(f"      → {finding.mend}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)


def main() -> None:
    """Entry point; a user's mistake is one line on standard error and exit code 2."""
    try:
        app()
    except SpecguideError as error:
        typer.echo(f"specguide: {error}", err=True)
        sys.exit(2 if isinstance(error, UserError) else 1)


def _spec(model: Path | None, head: Path | None, num_draft_tokens: int, *, no_spec: bool) -> SpecConfig | None:
    has_head = model is None or head is not None
    return SpecConfig(model=head, num_draft_tokens=num_draft_tokens) if has_head and not no_spec else None


def _guide(schema: Path | None, regex: str | None, grammar: Path | None) -> Guide | None:
    given: dict[str, Any] = {
        "json_schema": schema and _read(schema), "regex": regex, "grammar": grammar and _read(grammar)}
    given = {kind: value for kind, value in given.items() if value is not None}
    return Guide(**given) if given else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParams(f"cannot read {path}: {error}") from error


def _line(figures: dict[str, Any]) -> str:
    hidden_s, exposed_s = figures["grammar_hidden_s"], figures["grammar_exposed_s"]
    grammar = f"{figures['grammar_s'] * 1e3:.1f} ms in callbacks"
    if exposed_s is not None:
        grammar = f"{hidden_s * 1e3:.1f} ms hidden, {exposed_s * 1e3:.1f} ms exposed"
    return ("{output_tokens} tokens · {num_iterations} iterations · acceptance length {acceptance_length:.2f} · "
            "{tokens_per_s:.0f} tokens/s · grammar {grammar}").format(**figures, grammar=grammar)
