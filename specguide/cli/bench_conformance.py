"""Owns `specguide bench conformance`: it checks how grammar backends handle your own JSON
schemas."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from specguide.bench.config import ConformanceConfig
from specguide.cli.config_options import ConfigOptions, Given, takes
from specguide.cli.options import bench_libraries, listed, write_text
from specguide.guided.backends import backend_choices
from specguide.host.release import installed_version

_MOST_SHOWN = 20
_TRIED = ConfigOptions(
    ConformanceConfig, "Options", known={"backends": ", ".join(backend_choices())}
)
Found = dict[str, list[dict[str, Any]]]
"""The records of each backend."""


@takes(_TRIED)
def conformance(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files and folders. NAME.json: a schema, with its instances, one per line, in "
            "NAME.valid.jsonl and "
            'NAME.invalid.jsonl beside it; or groups of {"schema", "tests": [{"data", "valid"}]} '
            "as in JSON-Schema-Test-Suite. NAME.jsonl: records as in JSONSchemaBench, JSON Mode "
            "Eval or BFCL."
        ),
    ],
    *,
    given: Given,
) -> None:
    """Check your own schemas: which are compiled and which refused, whether valid instances are
    accepted and invalid ones refused, and whether what the grammar can generate is valid.

    A run that was interrupted can be continued; a schema that has changed is measured again. Exits
    with 1 where an invalid instance was accepted or an invalid text drawn.
    """
    with bench_libraries():
        from specguide.bench.conformance import BackendCompiler, Trial
        from specguide.bench.conformance_cases import load_cases
        from specguide.bench.conformance_report import num_let_by, summary

    config = ConformanceConfig(**given[ConformanceConfig])
    cases = load_cases(paths)
    made_by = f"specguide {installed_version() or 'of a checkout'}"
    found = {}
    for backend in listed("--backends", config.backends, backend_choices()):
        make = partial(BackendCompiler, backend)
        kept = config.output / f"{backend}.jsonl"
        found[backend] = Trial(make, config.draws, made_by, kept).records(cases)
    result = {backend: summary(records) for backend, records in found.items()}
    _tell(result, found, paths, config)
    if any(num_let_by(sets) for sets in result.values()):
        raise typer.Exit(1)


def _tell(
    result: dict[str, Any], found: Found, paths: list[Path], config: ConformanceConfig
) -> None:
    """Write table, JSON and report, and the first faults."""
    from specguide.bench.conformance_report import markdown, table
    from specguide.bench.provenance import provenance

    typer.echo(table(result))
    places = [str(path) for path in paths]
    asked = {"paths": places, "draws": config.draws}
    record = {"benchmark": "conformance", **provenance(), "config": asked, "result": result}
    write_text(config.output / "conformance.json", json.dumps(record, ensure_ascii=False, indent=1))
    num_cases = len(next(iter(found.values())))
    how = f"{num_cases} schemas of {', '.join(places)}, over a vocabulary of bytes."
    write_text(config.output / "conformance.md", markdown(result, found, how).rstrip())
    for fault in _faults(found)[:_MOST_SHOWN]:
        typer.echo(fault, err=True)


def _faults(found: Found) -> list[str]:
    return [
        f"{backend}, {record['name']}: {fault}"
        for backend, records in found.items()
        for record in records
        for fault in record.get("faults", ())
    ]
