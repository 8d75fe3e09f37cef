"""Owns `specguide bench`: measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from specguide.cli.bench_acceptance import acceptance
from specguide.cli.bench_conformance import conformance
from specguide.cli.options import ApiKey, Temperature, write_text
from specguide.errors import InvalidParams

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
_MOST_SHOWN = 20


@bench.callback()
def _group() -> None:
    """Measure how fast it is, and check what it gives."""


@bench.command()
def serve(
    url: Annotated[
        str, typer.Option(help="The server, up to and with /v1.", rich_help_panel="Server")
    ] = ("http://127.0.0.1:8000/v1"),
    model: Annotated[
        str | None,
        typer.Option(
            help="What the server calls the model; its first one when left out.",
            rich_help_panel="Server",
        ),
    ] = None,
    api_key: ApiKey = "none",
    concurrency: Annotated[
        int, typer.Option(help="Most requests at once.", rich_help_panel="Load")
    ] = 64,
    seconds: Annotated[
        float,
        typer.Option(
            help="How long requests are sent; those under way are waited for.",
            rich_help_panel="Load",
        ),
    ] = 120.0,
    requests: Annotated[
        int | None,
        typer.Option(help="Send so many instead, however long it takes.", rich_help_panel="Load"),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Arrivals a second, at random (Poisson); else the next request follows when one "
            "has ended.",
            rich_help_panel="Load",
        ),
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout",
            help="Seconds after which an answer counts as lost.",
            rich_help_panel="Load",
        ),
    ] = 120.0,
    free: Annotated[
        float, typer.Option(help="Share of free text.", rich_help_panel="Requests")
    ] = 1.0,
    json_share: Annotated[
        float,
        typer.Option(
            "--json",
            help="Share of answers that must match a JSON schema.",
            rich_help_panel="Requests",
        ),
    ] = 1.0,
    tools: Annotated[
        float, typer.Option(help="Share of tool calls.", rich_help_panel="Requests")
    ] = 1.0,
    schemas: Annotated[
        Path | None,
        typer.Option(
            help='JSON Lines file of {"schema": …}, as JSONSchemaBench; a built-in few when left '
            "out.",
            rich_help_panel="Requests",
        ),
    ] = None,
    tool_tasks: Annotated[
        Path | None,
        typer.Option(
            help='JSON Lines file of {"question": messages, "tools": […]}, as BFCL; a built-in few '
            "when left out.",
            rich_help_panel="Requests",
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(help="Most tokens of an answer.", rich_help_panel="Requests")
    ] = 128,
    temperature: Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed sends the same requests.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the JSON line there too.")] = None,
) -> None:
    """Put a server of the OpenAI API under load, and check every answer.

    Every request carries a marker that its answer must have and no other may: a constant in its
    schema or in its tools' parameters. So each guided request has a grammar of its own. Prints a
    table and one JSON line. Exits with 1 where an answer was lost, has something of another
    request, or is not what was asked for.
    """
    try:
        from specguide.bench import figures, samples
        from specguide.bench.drive import Load
        from specguide.bench.serve import Target, measure
        from specguide.bench.workload import Workload
    except ModuleNotFoundError as error:
        raise InvalidParams(f'this needs {error.name}: pip install "specguide[bench]"') from error

    kinds = samples.built_in()
    if schemas is not None:
        kinds["json"] = samples.read_schemas(schemas)
    if tool_tasks is not None:
        kinds["tools"] = samples.read_tool_tasks(tool_tasks)
    load = Load(concurrency, seconds, requests, rate, timeout_s, seed)
    target = Target.reach(url, model, api_key)
    workload = Workload(
        kinds,
        {"free": free, "json": json_share, "tools": tools},
        target.model,
        max_tokens,
        temperature,
        seed,
    )
    record, faults = measure(target, workload, load)
    for fault in faults[:_MOST_SHOWN]:
        typer.echo(f"{fault.kind}: {fault.cause}: {fault.detail}", err=True)
    for line in figures.table(record["result"]):
        typer.echo(line)
    text = json.dumps(record, ensure_ascii=False)
    typer.echo(text)
    if output is not None:
        write_text(output, text)
    if not figures.is_good(record["result"]):
        raise typer.Exit(1)


bench.command()(acceptance)
bench.command()(conformance)
