"""Owns `specguide bench serve`: a server under load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.bench.config import Load, RequestMix, ServerAddress
from specguide.cli.config_options import ConfigOptions, Given, takes
from specguide.cli.options import API_KEY_VARIABLE, bench_libraries, write_text

_MOST_SHOWN = 20
_SERVER = ConfigOptions(ServerAddress, "Server", variables={"api_key": API_KEY_VARIABLE})
_LOAD = ConfigOptions(Load, "Load", {"timeout_s": "timeout"})
_REQUESTS = ConfigOptions(RequestMix, "Requests")


@takes(_SERVER, _LOAD, _REQUESTS)
def serve(
    *,
    output: Annotated[Path | None, typer.Option(help="Write the JSON line there too.")] = None,
    given: Given,
) -> None:
    """Put a server of the OpenAI API under load, and check every answer.

    Every request carries a marker that its answer must have and no other may: a constant in its
    schema or in its tools' parameters. So each guided request has a grammar of its own. Prints a
    table and one JSON line. Exits with 1 where an answer was lost, has something of another
    request, or is not what was asked for.
    """
    with bench_libraries():
        from specguide.bench import figures
        from specguide.bench.serve import Target, measure
        from specguide.bench.workload import Workload

    load, mix = Load(**given[Load]), RequestMix(**given[RequestMix])
    target = Target.reach(ServerAddress(**given[ServerAddress]))
    record, faults = measure(target, Workload.of(mix, target.model, load.seed), load)
    for fault in faults[:_MOST_SHOWN]:
        typer.echo(f"{fault.kind}: {fault.cause}: {fault.detail}", err=True)
    for line in figures.table(record["result"]):
        typer.echo(line)
    _write(record, output)
    if not figures.is_good(record["result"]):
        raise typer.Exit(1)


def _write(record: dict[str, Any], output: Path | None) -> None:
    text = json.dumps(record, ensure_ascii=False)
    typer.echo(text)
    if output is not None:
        write_text(output, text)
