"""Owns `specguide bench`: measurements."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from specguide.cli.options import ApiKey, MaxTokens, Model, NumDraftTokens, Temperature, model_name
from specguide.config import SPEC_METHODS
from specguide.errors import InvalidParams

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
_MOST_SHOWN = 20


@bench.callback()
def _group() -> None:
    """Measure how fast it is, and check what it gives."""


@bench.command()
def serve(
    url: Annotated[str, typer.Option(help="The server, up to and with /v1.", rich_help_panel="Server")] = (
        "http://127.0.0.1:8000/v1"),
    model: Annotated[str | None, typer.Option(
        help="What the server calls the model; its first one when left out.", rich_help_panel="Server")] = None,
    api_key: ApiKey = "none",
    concurrency: Annotated[int, typer.Option(help="Most requests at once.", rich_help_panel="Load")] = 64,
    seconds: Annotated[float, typer.Option(
        help="How long requests are sent; those under way are waited for.", rich_help_panel="Load")] = 120.0,
    requests: Annotated[int | None, typer.Option(
        help="Send so many instead, however long it takes.", rich_help_panel="Load")] = None,
    rate: Annotated[float | None, typer.Option(
        help="Arrivals a second, at random (Poisson); else the next request follows when one has ended.",
        rich_help_panel="Load")] = None,
    timeout_s: Annotated[float, typer.Option(
        "--timeout", help="Seconds after which an answer counts as lost.", rich_help_panel="Load")] = 120.0,
    free: Annotated[float, typer.Option(help="Share of free text.", rich_help_panel="Requests")] = 1.0,
    json_share: Annotated[float, typer.Option(
        "--json", help="Share of answers that must match a JSON schema.", rich_help_panel="Requests")] = 1.0,
    tools: Annotated[float, typer.Option(help="Share of tool calls.", rich_help_panel="Requests")] = 1.0,
    schemas: Annotated[Path | None, typer.Option(
        help='JSON Lines file of {"schema": …}, as JSONSchemaBench; a built-in few when left out.',
        rich_help_panel="Requests")] = None,
    tool_tasks: Annotated[Path | None, typer.Option(
        help='JSON Lines file of {"question": messages, "tools": […]}, as BFCL; a built-in few when left out.',
        rich_help_panel="Requests")] = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.", rich_help_panel="Requests")] = 128,
    temperature: Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed sends the same requests.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write the JSON line there too.")] = None,
) -> None:
    """Put a server of the OpenAI API under load, and check every answer.

    Every request carries a marker that its answer must have and no other may: a constant in its schema or in its tools'
    parameters. So each guided request has a grammar of its own. Prints a table and one JSON line. Exits with 1 where an
    answer was lost, has something of another request, or is not what was asked for.
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
    workload = Workload(kinds, {"free": free, "json": json_share, "tools": tools}, target.model, max_tokens,
                        temperature, seed)
    record, faults = measure(target, workload, load)
    for fault in faults[:_MOST_SHOWN]:
        typer.echo(f"{fault.kind}: {fault.cause}: {fault.detail}", err=True)
    for line in figures.table(record["result"]):
        typer.echo(line)
    text = json.dumps(record, ensure_ascii=False)
    typer.echo(text)
    if output is not None:
        _write(output, text)
    if not figures.is_good(record["result"]):
        raise typer.Exit(1)


@bench.command()
def acceptance(
    data: Annotated[Path | None, typer.Option(
        help="Folder with NAME.jsonl for each set; else the Hugging Face hub.", rich_help_panel="Requests")] = None,
    sets: Annotated[str, typer.Option(
        help="json_mode_eval, jsonschemabench, bfcl, or any NAME.jsonl of messages and schema.",
        rich_help_panel="Requests")] = "json_mode_eval,jsonschemabench,bfcl",
    samples: Annotated[int, typer.Option(help="Most tasks of a set.", rich_help_panel="Requests")] = 40,
    max_tokens: MaxTokens = 256,
    max_whitespace: Annotated[int, typer.Option(
        help="Most whitespace between two JSON tokens; 0 is compact, where the grammar forces most.",
        rich_help_panel="Requests")] = 0,
    drafters: Annotated[str, typer.Option(
        help=f"Of {', '.join(SPEC_METHODS)}; plain decoding is always measured too.", rich_help_panel="Settings")] = (
        "eagle3,ngram,suffix,grammar"),
    forced: Annotated[str, typer.Option(
        help="F: drafts beside the drafter's where the grammar forces text.", rich_help_panel="Settings")] = "0,8",
    drafts: Annotated[str, typer.Option(
        help="guided, unguided or both.", rich_help_panel="Settings")] = "guided,unguided",
    backends: Annotated[str, typer.Option(help="Grammar backends.", rich_help_panel="Settings")] = "auto",
    concurrency: Annotated[str, typer.Option(help="Requests at once; several draw a Pareto plot.",
                                             rich_help_panel="Settings")] = "8",
    model: Model = None,
    num_draft_tokens: NumDraftTokens = 3,
    output: Annotated[Path, typer.Option(help="Folder for records, table and plots.")] = Path("acceptance"),
) -> None:
    """Measure how many tokens an iteration gains, for each drafter, with and without draft guidance and forced drafts.

    Every setting's outputs are compared with plain decoding's and validated. A run that was broken off goes on where it
    was: what OUTPUT has already is not measured again. Exits with 1 where an output is invalid.
    """
    try:
        from specguide.bench import acceptance_report
        from specguide.bench.acceptance import Conditions, measure
        from specguide.bench.records import Records
        from specguide.bench.settings import settings
        from specguide.bench.tasks import load_tasks
    except ModuleNotFoundError as error:
        raise InvalidParams(f'this needs {error.name}: pip install "specguide[bench]"') from error
    from functools import partial

    from specguide.llm import LLM

    kinds = {"guided": True, "unguided": False}
    names = _listed(sets)
    wanted = list(settings(names, _listed(drafters), [_number(n) for n in _listed(forced)],
                           [kinds[kind] for kind in _known(drafts, kinds)], _listed(backends),
                           [_number(n) for n in _listed(concurrency)]))
    conditions = Conditions(partial(LLM, model), num_draft_tokens, max_tokens, max_whitespace)
    tasks = {name: load_tasks(name, data, samples) for name in names}
    records = Records(output, {"samples": samples, "max_tokens": max_tokens, "max_whitespace": max_whitespace,
                               "num_draft_tokens": num_draft_tokens, "model": model_name(model), "data": str(data)})
    found = measure(wanted, tasks, conditions, records)
    table = acceptance_report.markdown(found)
    _write(output / "acceptance.md", table)
    typer.echo(table)
    try:
        acceptance_report.draw(found, output)
    except ModuleNotFoundError:
        typer.echo('no plots without matplotlib: pip install "specguide[plot]"', err=True)
    if any(record["invalid"] for record in found):
        raise typer.Exit(1)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _number(text: str) -> int:
    if not text.isdigit():
        raise InvalidParams(f"a list of whole numbers is wanted, found {text!r} in it")
    return int(text)


def _known(text: str, kinds: Collection[str]) -> list[str]:
    listed = _listed(text)
    strange = next((kind for kind in listed if kind not in kinds), None)
    if strange is not None:
        raise InvalidParams(f"{strange!r} is none of {', '.join(kinds)}")
    return listed


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise InvalidParams(f"cannot write {path}: {error}") from error
