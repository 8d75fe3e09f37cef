"""Owns `specguide bench acceptance`: what speculation gains with a model on data sets."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide import env
from specguide.bench.settings import DRAFTERS, Axes
from specguide.cli.options import MaxTokens, Model, listed, listed_numbers, model_name, write_text
from specguide.errors import InvalidParams
from specguide.guided.backends import backend_choices

_METHODS = sorted({options["method"] for options in DRAFTERS.values()})
_GUIDED = {"guided": True, "unguided": False}
_REQUESTS, _SETTINGS = "Requests", "Settings, each a comma-separated list"


def acceptance(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with NAME.jsonl for each set; $SPECGUIDE_DATA when left out.",
            rich_help_panel=_REQUESTS,
        ),
    ] = None,
    sets: Annotated[
        str,
        typer.Option(
            help="extraction, tools and free_text are built in; NAME.jsonl of --data, with "
            "messages and schema, or in the "
            "form of BFCL or JSONSchemaBench; hub:REPOSITORY[:SPLIT[:CONFIG]] of the Hugging Face "
            "hub, "
            "json_mode_eval and jsonschemabench for short.",
            rich_help_panel=_REQUESTS,
        ),
    ] = "extraction,tools",
    samples: Annotated[
        int, typer.Option(help="Most tasks of a set.", rich_help_panel=_REQUESTS)
    ] = 32,
    max_tokens: MaxTokens = 256,
    max_whitespace: Annotated[
        int,
        typer.Option(
            help="Most whitespace between two JSON tokens; 0 is compact, where the grammar forces "
            "most.",
            rich_help_panel=_REQUESTS,
        ),
    ] = 0,
    drafters: Annotated[
        str,
        typer.Option(
            help=f"Of {', '.join(DRAFTERS)}; plain decoding is always measured too.",
            rich_help_panel=_SETTINGS,
        ),
    ] = ("eagle3,mtp,ngram,suffix,grammar"),
    num_draft_tokens: Annotated[
        str, typer.Option(help="K, draft tokens per iteration.", rich_help_panel=_SETTINGS)
    ] = "3",
    forced: Annotated[
        str,
        typer.Option(
            help="F, drafts beside the drafter's where the grammar forces text.",
            rich_help_panel=_SETTINGS,
        ),
    ] = "0,8",
    drafts: Annotated[
        str, typer.Option(help="guided, unguided.", rich_help_panel=_SETTINGS)
    ] = "guided,unguided",
    backends: Annotated[
        str,
        typer.Option(
            help=f"Of {', '.join(backend_choices())}; what one refuses is counted.",
            rich_help_panel=_SETTINGS,
        ),
    ] = "auto",
    concurrency: Annotated[
        str,
        typer.Option(
            help="Requests at once; several draw a Pareto plot.", rich_help_panel=_SETTINGS
        ),
    ] = "8",
    model: Model = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help="METHOD=FOLDER of a draft head or of the small model that drafts; for each method "
            "one.",
            rich_help_panel="Model",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for records, JSON, tables and plots.")
    ] = Path("acceptance"),
) -> None:
    """Measure how many tokens an iteration gains and how long it takes, for each drafter, window,
    backend and load, with and without draft guidance and forced drafts.

    Every setting's outputs are compared with plain decoding's and validated. A run that was broken
    off goes on where it
    was: what OUTPUT has already is not measured again. Exits with 1 where an output is invalid.
    """
    try:
        from specguide.bench.acceptance import Conditions, measure
        from specguide.bench.data_sets import load_tasks
        from specguide.bench.records import Records
    except ModuleNotFoundError as error:
        raise InvalidParams(f'this needs {error.name}: pip install "specguide[bench]"') from error

    from specguide.llm import LLM

    heads = _heads(head or ())
    axes = Axes(
        listed(drafters, DRAFTERS),
        listed_numbers(num_draft_tokens),
        listed_numbers(forced),
        [_GUIDED[kind] for kind in listed(drafts, _GUIDED)],
        listed(backends, backend_choices()),
        listed_numbers(concurrency),
    )
    folder = data or env.data_dir()
    tasks = {name: load_tasks(name, folder, samples) for name in listed(sets)}
    for name, some in tasks.items():
        if len(some) < max(axes.concurrency):
            typer.echo(
                f"{name} has {len(some)} tasks: settings with more requests at once are left out",
                err=True,
            )
    wanted = list(axes.settings({name: len(some) for name, some in tasks.items()}))
    for setting in wanted:
        setting.spec(heads)  # what cannot be is said before anything is measured
    asked = {
        "samples": samples,
        "max_tokens": max_tokens,
        "max_whitespace": max_whitespace,
        "data": folder and folder.resolve().name,
        "model": model_name(model),
        "heads": {method: str(path) for method, path in heads.items()},
    }
    found = measure(
        wanted,
        tasks,
        Conditions(partial(LLM, model), max_tokens, max_whitespace, heads),
        Records(output, asked),
    )
    _tell(found, asked, output)
    if any(record["invalid"] for record in found):
        raise typer.Exit(1)


def _tell(found: list[dict[str, Any]], asked: dict[str, Any], folder: Path) -> None:
    """Write JSON, tables and plots."""
    from specguide.bench import acceptance_plots, acceptance_report
    from specguide.bench.provenance import provenance

    record = {"benchmark": "acceptance", **provenance(), "config": asked, "result": found}
    write_text(folder / "acceptance.json", json.dumps(record, ensure_ascii=False, indent=1))
    table = acceptance_report.markdown(found)
    write_text(folder / "acceptance.md", table)
    typer.echo(table)
    try:
        acceptance_plots.draw(found, folder)
    except ModuleNotFoundError:
        typer.echo('no plots without matplotlib: pip install "specguide[plot]"', err=True)


def _heads(options: list[str] | tuple[str, ...]) -> dict[str, Path]:
    heads = {}
    for option in options:
        method, separator, folder = option.partition("=")
        if method not in _METHODS or not separator:
            raise InvalidParams(
                f"--head {option!r} is not METHOD=FOLDER with a METHOD of {', '.join(_METHODS)}"
            )
        heads[method] = Path(folder)
    return heads
