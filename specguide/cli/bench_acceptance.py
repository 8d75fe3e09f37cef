"""Owns `specguide bench acceptance`: it measures what speculation gains with a model on data
sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.bench.config import AxisLists, BenchEngine, TaskChoice
from specguide.bench.settings import DRAFTERS, UNGUIDED, Axes, Setting
from specguide.bench.tasks import Task, digest
from specguide.cli.config_options import ConfigOptions, Given, takes
from specguide.cli.options import (
    Model,
    bench_libraries,
    listed,
    listed_numbers,
    write_text,
)
from specguide.drafts.methods import method_named
from specguide.errors import InvalidParams
from specguide.guided.backends import backend_choices
from specguide.host import env
from specguide.server.config import model_name

_METHODS = sorted(
    {name for options in DRAFTERS.values() if method_named(name := options["method"]).has_model}
)
_USUAL = ("eagle3", "mtp", "ngram", "suffix", "grammar")
_GUIDED = {"guided": True, "unguided": False}
_REQUESTS = ConfigOptions(TaskChoice, "Requests")
_ENGINE = ConfigOptions(BenchEngine, "Engine")
_SETTINGS = ConfigOptions(
    AxisLists,
    "Settings, each a comma-separated list",
    known={"drafters": ", ".join((*DRAFTERS, UNGUIDED)), "backends": ", ".join(backend_choices())},
)


@takes(_REQUESTS, _SETTINGS, _ENGINE)
def acceptance(
    *,
    model: Model = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            help="METHOD=FOLDER of a draft head, or of the small model that drafts; at most one "
            "for each method.",
            rich_help_panel="Model",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Folder for records, JSON, tables and plots.")
    ] = Path("acceptance"),
    given: Given,
) -> None:
    """Measure how many tokens an iteration gains and how long it takes, for each drafter, window,
    backend and load, with and without draft guidance and forced drafts.

    Outputs of each setting are compared with those of plain decoding, and validated. A run that was
    interrupted reports what it has, and can be continued: settings that OUTPUT already has for the
    same weights and tasks are not measured again, and each record names its version. Exits with 1
    where an output is invalid.
    """
    with bench_libraries():
        from specguide.bench.acceptance import Conditions, measure
        from specguide.bench.records import Records
    from specguide.llm import LLM

    choice, heads = TaskChoice(**given[TaskChoice]), _heads(head or ())
    lists = AxisLists(**given[AxisLists])
    axes = _axes(lists, _drafters(lists.drafters, model, heads))
    folder = choice.data or env.data_dir()
    tasks = _tasks(choice, folder)
    wanted = _wanted(axes, tasks, heads)
    engine = BenchEngine(**given[BenchEngine])
    asked = {**_asked(choice, folder, model, heads), "dtype": engine.dtype}
    records = Records(output, asked, {name: digest(some) for name, some in tasks.items()})
    if num_kept := sum(records.find(setting) is not None for setting in wanted):
        typer.echo(f"{output} has {num_kept} of {len(wanted)} settings already", err=True)
    make = partial(LLM, model, **asdict(engine))
    conditions = Conditions(make, choice.max_tokens, choice.max_whitespace, heads)
    found = _reported(measure(wanted, tasks, conditions, records), len(wanted), asked, output)
    if any(record["invalid"] for record in found if record["drafter"] != UNGUIDED):
        raise typer.Exit(1)


def _tasks(choice: TaskChoice, folder: Path | None) -> dict[str, list[Task]]:
    """The tasks of each set, by the set's name."""
    with bench_libraries():
        from specguide.bench.data_sets import load_tasks

    return {
        name: [
            replace(task, is_closed=choice.closed_objects)
            for task in load_tasks(name, folder, choice.samples, choice.max_chars)
        ]
        for name in listed("--sets", choice.sets)
    }


def _drafters(asked: str | None, model: Path | None, heads: Mapping[str, Path]) -> Sequence[str]:
    """The drafters to measure. Raises InvalidParams where one is asked for whose head is missing,
    CheckpointError for a target that cannot be read."""
    from specguide.engine.setup.facts import own_heads
    from specguide.engine.setup.target_folder import target_folder
    from specguide.models import read_config

    read_config(target_folder(model))
    found = _USUAL if asked is None else listed("--drafters", asked, (*DRAFTERS, UNGUIDED))
    absent = set(_METHODS) - {*heads, *own_heads(model)}
    headless = [name for name in found if name != UNGUIDED and DRAFTERS[name]["method"] in absent]
    for name in headless:
        method = DRAFTERS[name]["method"]
        words = f"{name} needs a head or a small model for this target: --head {method}=FOLDER"
        if asked is not None:
            raise InvalidParams(words, param="drafters")
        typer.echo(f"{words}; {name} is left out", err=True)
    return [name for name in found if name not in headless]


def _axes(lists: AxisLists, drafters: Sequence[str]) -> Axes:
    return Axes(
        drafters,
        listed_numbers("--num-draft-tokens", lists.num_draft_tokens, least=1),
        listed_numbers("--forced", lists.forced),
        [_GUIDED[kind] for kind in listed("--drafts", lists.drafts, _GUIDED)],
        listed("--backends", lists.backends, backend_choices()),
        listed_numbers("--concurrency", lists.concurrency, least=1),
    )


def _wanted(
    axes: Axes, tasks: Mapping[str, Sequence[Task]], heads: Mapping[str, Path]
) -> Sequence[Setting]:
    """The settings to measure; sets without schemas get none in which the grammar takes part.
    Raises InvalidParams, before anything is measured, for a setting that is not possible."""
    num_tasks = {name: len(some) for name, some in tasks.items()}
    for name, found in num_tasks.items():
        if found < max(axes.concurrency):
            typer.echo(
                f"{name} has {found} tasks, so at most {found} requests run at once", err=True
            )
    guided = {name for name, some in tasks.items() if any(task.schema is not None for task in some)}
    wanted = [
        setting
        for setting in axes.settings(num_tasks)
        if setting.set_name in guided or not (setting.num_forced or setting.drafter == UNGUIDED)
    ]
    methods = {spec.method for setting in wanted if (spec := setting.spec(heads)) is not None}
    for method in heads.keys() - methods:
        typer.echo(f"--head {method}={heads[method]}: none of --drafters uses it", err=True)
    return wanted


def _asked(
    choice: TaskChoice, folder: Path | None, model: Path | None, heads: Mapping[str, Path]
) -> dict[str, Any]:
    """The conditions under which records are kept: figures of other conditions are not mixed with
    them."""
    from specguide.engine.setup.checkpoint_identity import identity
    from specguide.engine.setup.target_folder import target_folder

    return {
        "samples": choice.samples,
        "max_chars": choice.max_chars,
        "max_tokens": choice.max_tokens,
        "max_whitespace": choice.max_whitespace,
        "closed_objects": choice.closed_objects,
        "data": folder and folder.resolve().name,
        "model": model_name(model),
        "heads": {method: str(path) for method, path in heads.items()},
        "weights": {
            name: identity(path) for name, path in {"model": target_folder(model), **heads}.items()
        },
    }


def _reported(
    figures: Iterator[dict[str, Any]], num_wanted: int, asked: dict[str, Any], folder: Path
) -> list[dict[str, Any]]:
    """All figures, which are written out at the end; where the run is interrupted, those so far."""
    found: list[dict[str, Any]] = []
    try:
        found.extend(figures)
    finally:
        if found:
            _report(found, asked, folder)
        if len(found) < num_wanted:
            typer.echo(f"{len(found)} of {num_wanted} settings are measured", err=True)
    return found


def _report(found: list[dict[str, Any]], asked: dict[str, Any], folder: Path) -> None:
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
    heads = dict[str, Path]()
    for option in options:
        method, separator, folder = option.partition("=")
        if method not in _METHODS or not separator:
            raise InvalidParams(
                f"--head {option!r} is not METHOD=FOLDER with a METHOD of {', '.join(_METHODS)}"
            )
        if method in heads:
            raise InvalidParams(f"--head gives {method} two folders: run the command once for each")
        if not Path(folder).exists():
            raise InvalidParams(f"--head {option!r}: there is no folder {folder}")
        heads[method] = Path(folder)
    return heads
