"""Owns `specguide bench serve`: it measures a server under load."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specguide.bench.config import Load, RequestMix, RequestSizes, ServerAddress
from specguide.cli.config_options import ConfigOptions, Given, takes
from specguide.cli.options import API_KEY_VARIABLE, bench_libraries, listed_numbers, write_text
from specguide.errors import InvalidParams

if TYPE_CHECKING:
    from specguide.bench.drive import Requests
    from specguide.bench.serve import Target

_MOST_SHOWN = 20
_SEED_STEP = 1000
"""Distance between the seeds of two loads, so that another --seed shares no prompts with them."""
_SERVER = ConfigOptions(ServerAddress, "Server", variables={"api_key": API_KEY_VARIABLE})
_LOAD = ConfigOptions(Load, "Load", {"timeout_s": "timeout", "concurrency": None})
_REQUESTS = ConfigOptions(RequestMix, "Requests that all differ")
_SIZES = ConfigOptions(RequestSizes, "Requests of one size")


@takes(_SERVER, _LOAD, _REQUESTS, _SIZES)
def serve(
    *,
    concurrency: Annotated[
        str,
        typer.Option(
            help="Most requests at once; of a comma-separated list, one load after another.",
            rich_help_panel="Load",
        ),
    ] = "64",
    output: Annotated[Path | None, typer.Option(help="Write the JSON line there too.")] = None,
    given: Given,
) -> None:
    """Put a server of the OpenAI API under one load after another, and check every answer.

    By default requests are free text, JSON schemas and tool calls. Each has a marker that its
    answer must contain and no other may: a constant in its schema or in its tools' parameters. So
    each guided request has a grammar of its own. With --prompt-len all requests have one size, as a
    comparison of servers needs. No two loads share prompts, so no cache knows them. Prints one
    table and one JSON line. Exits with 1 where an answer was lost, contains something of another
    request, or is not what was asked for.
    """
    with bench_libraries():
        from specguide.bench import figures
        from specguide.bench.serve import Target, measure, record_of

    load, mix = Load(**given[Load]), RequestMix(**given[RequestMix])
    sizes = RequestSizes(**given[RequestSizes])
    _refuse_without_effect(mix, sizes)
    loads = [
        replace(load, concurrency=number) for number in listed_numbers("--concurrency", concurrency)
    ]
    target = Target.reach(ServerAddress(**given[ServerAddress]))
    measured = []
    for index, one in enumerate(loads):
        requests = _requests(mix, sizes, target, load.seed + _SEED_STEP * index)
        measured.append(measure(target, requests, one))
    for fault in [fault for one in measured for fault in one.faults][:_MOST_SHOWN]:
        typer.echo(f"{fault.kind}: {fault.cause}: {fault.detail}", err=True)
    asked = mix if sizes.prompt_len is None else sizes
    record = record_of(target, asdict(asked), measured)
    for line in figures.table(record["result"]):
        typer.echo(line)
    _write(record, output)
    if not all(map(figures.is_good, record["result"])):
        raise typer.Exit(1)


def _refuse_without_effect(mix: RequestMix, sizes: RequestSizes) -> None:
    """Raises InvalidParams for an option of requests that are not sent."""
    unused: RequestMix | RequestSizes = sizes
    why = "changes nothing without --prompt-len: give --prompt-len too"
    if sizes.prompt_len is not None:
        unused = mix
        why = "changes nothing beside --prompt-len: leave one of them out"
    for entry in fields(unused):
        if getattr(unused, entry.name) != entry.default:
            flag = f"--{entry.name.replace('_', '-')}"
            raise InvalidParams(f"{flag} {why}", param=entry.name)
    if sizes.prompt_ids is not None and sizes.api != "completions":
        raise InvalidParams("--prompt-ids needs --api completions", param="prompt_ids")


def _requests(mix: RequestMix, sizes: RequestSizes, target: Target, seed: int) -> Requests:
    from specguide.bench.serve import fitted
    from specguide.bench.workload import Workload

    if sizes.prompt_len is None:
        return Workload.of(mix, target.model, seed)
    return fitted(target, sizes, seed)


def _write(record: dict[str, Any], output: Path | None) -> None:
    text = json.dumps(record, ensure_ascii=False, default=str)
    typer.echo(text)
    if output is not None:
        write_text(output, text)
