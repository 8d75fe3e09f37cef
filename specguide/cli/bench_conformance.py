"""Owns `specguide bench conformance`: how a grammar backend deals with JSON schemas of your own."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from specguide.cli.options import listed, write_text
from specguide.errors import InvalidParams
from specguide.guided.backends import backend_choices

_MOST_SHOWN = 20


def conformance(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files and folders. NAME.json: a schema, its instances a line each in "
            "NAME.valid.jsonl and "
            'NAME.invalid.jsonl beside it, or groups of {"schema", "tests": [{"data", "valid"}]} '
            "as in "
            "JSON-Schema-Test-Suite. NAME.jsonl: records as in JSONSchemaBench, JSON Mode Eval or "
            "BFCL."
        ),
    ],
    backends: Annotated[
        str, typer.Option(help=f"Of {', '.join(backend_choices())}, comma-separated.")
    ] = "auto",
    draws: Annotated[
        int, typer.Option(help="Random texts that are drawn from each grammar and validated.")
    ] = 4,
    output: Annotated[Path, typer.Option(help="Folder for records, JSON and report.")] = Path(
        "conformance"
    ),
) -> None:
    """Check on your own schemas what is compiled and what refused, whether valid instances are
    accepted and invalid ones refused, and whether what the grammar can generate is valid.

    A run that was broken off goes on where it was; a schema that was changed is measured again.
    Exits with 1 where an invalid instance was accepted or an invalid text drawn.
    """
    try:
        from specguide.bench.conformance import BackendCompiler, Trial
        from specguide.bench.conformance_cases import load_cases
        from specguide.bench.conformance_report import markdown, num_let_by, summary, table
        from specguide.bench.provenance import provenance
    except ModuleNotFoundError as error:
        raise InvalidParams(f'this needs {error.name}: pip install "specguide[bench]"') from error
    from importlib.metadata import version

    if draws < 0:
        raise InvalidParams(f"--draws must be ≥ 0, found {draws}")
    cases, made_by = load_cases(paths), f"specguide {version('specguide')}"
    trials = {
        backend: Trial(
            partial(BackendCompiler, backend), draws, made_by, output / f"{backend}.jsonl"
        )
        for backend in listed(backends, backend_choices())
    }
    found = {backend: trial.records(cases) for backend, trial in trials.items()}
    result = {backend: summary(records) for backend, records in found.items()}
    typer.echo(table(result))
    places = [str(path) for path in paths]
    write_text(
        output / "conformance.json",
        json.dumps(
            {
                "benchmark": "conformance",
                **provenance(),
                "config": {"paths": places, "draws": draws},
                "result": result,
            },
            ensure_ascii=False,
            indent=1,
        ),
    )
    how = f"{len(cases)} schemas of {', '.join(places)}, over a vocabulary of bytes."
    write_text(output / "conformance.md", markdown(result, found, how).rstrip())
    faults = [
        (backend, record["name"], fault)
        for backend, records in found.items()
        for record in records
        for fault in record.get("faults", ())
    ]
    for backend, name, fault in faults[:_MOST_SHOWN]:
        typer.echo(f"{backend}, {name}: {fault}", err=True)
    if any(num_let_by(sets) for sets in result.values()):
        raise typer.Exit(1)
