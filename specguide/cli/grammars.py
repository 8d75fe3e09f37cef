"""Owns `specguide grammars`: what the library of ready grammars has."""

from __future__ import annotations

from typing import Annotated

import typer

from specguide.ready_grammars import MARK, ready_grammar, ready_grammars

grammars = typer.Typer(no_args_is_help=True, help="The ready grammars: --grammar @NAME takes one.")
_FORMS = {"lark": "Lark", "ebnf": "EBNF", "schemas": "JSON Schema"}


@grammars.command("list")
def list_them() -> None:
    """Name each of them and say what it describes."""
    for one in ready_grammars().values():
        typer.echo(f"{MARK + one.name:22}{_FORMS[one.form]:13}{one.about}")


@grammars.command()
def show(name: Annotated[str, typer.Argument(help="As listed, with or without @.")]) -> None:
    """Print one."""
    typer.echo(ready_grammar(name).text, nl=False)
