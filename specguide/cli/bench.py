"""Owns `specguide bench`: the group of commands for measurements."""

from __future__ import annotations

import typer

from specguide.cli.bench_acceptance import acceptance
from specguide.cli.bench_conformance import conformance
from specguide.cli.bench_serve import serve
from specguide.cli.other_engines import MeasuresServers

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@bench.callback()
def _group() -> None:
    """Measure how fast it is, and check what it generates."""


bench.command(cls=MeasuresServers)(serve)
for command in (acceptance, conformance):
    bench.command()(command)
