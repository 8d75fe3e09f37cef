"""Owns the command line `specguide`: its commands by name, and the exit codes for errors."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from specguide.cli.bench import bench
from specguide.cli.chat import chat
from specguide.cli.doctor import doctor
from specguide.cli.generate import generate
from specguide.cli.grammars import grammars
from specguide.cli.join import join
from specguide.cli.other_engines import KnowsOtherEngines, ReadsFile, ServesNames
from specguide.cli.run_batch import run_batch
from specguide.cli.serve import serve
from specguide.errors import SpecguideError, UserError
from specguide.host.release import installed_version

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Generate text that is certain to match a grammar, fast by speculative decoding.",
)
app.command(cls=KnowsOtherEngines)(generate)
app.command(cls=ServesNames)(chat)
app.command(cls=ReadsFile)(serve)
app.command(cls=ServesNames)(run_batch)
for command in (join, doctor):
    app.command()(command)
app.add_typer(bench, name="bench")
app.add_typer(grammars, name="grammars")


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(installed_version() or "a checkout that is not installed")
        raise typer.Exit


@app.callback()
def _of_all_commands(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """The options before a command."""


def main() -> None:
    """Run the command line. A user's mistake is one line on standard error and exit code 2."""
    try:
        app()
    except SpecguideError as error:
        typer.echo(f"specguide: {error}", err=True)
        sys.exit(2 if isinstance(error, UserError) else 1)
    except UnicodeError as error:
        typer.echo(
            f"specguide: {error}: standard input and output have the encoding of the locale; set "
            "PYTHONIOENCODING for another one, for example to utf-8",
            err=True,
        )
        sys.exit(2)
    except OSError as error:  # such as output to a full disk
        typer.echo(f"specguide: {error}", err=True)
        sys.exit(2)
