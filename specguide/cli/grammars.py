"""Owns `specguide grammars`: the commands for ready grammars, and for certificates of schemas."""

from __future__ import annotations

from typing import Annotated

import typer

from specguide.cli.certify import certify
from specguide.guide.ready_grammars import MARK, ready_grammar, ready_grammars

grammars = typer.Typer(
    no_args_is_help=True,
    help="Show the ready grammars, which --grammar @NAME uses, and what a schema's grammar "
    "enforces.",
)
grammars.command()(certify)
_FORMS = {"lark": "Lark", "ebnf": "EBNF", "schemas": "JSON Schema"}


@grammars.command("list")
def list_them() -> None:
    """List the ready grammars, and what each describes."""
    for one in ready_grammars().values():
        typer.echo(f"{MARK + one.name:22}{_FORMS[one.form]:13}{one.about}")


@grammars.command()
def show(name: Annotated[str, typer.Argument(help="As listed, with or without @.")]) -> None:
    """Print a ready grammar."""
    typer.echo(ready_grammar(name).text, nl=False)
