"""Owns the layout of --help for commands with many options."""

from __future__ import annotations

from copy import copy
from typing import Any

from typer.core import TyperCommand


class HelpOfManyOptions(TyperCommand):
    """A command whose --help mentions the negative names of options in their help texts.

    typer gives these names a column of their own, which leaves so little room on 80 columns that
    other options' names are cut off.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        shown = copy(self)
        shown.params = [_without_negative_name(parameter) for parameter in self.params]
        TyperCommand.format_help(shown, ctx, formatter)


def _without_negative_name(parameter: Any) -> Any:
    if not parameter.secondary_opts:
        return parameter
    shown = copy(parameter)
    shown.secondary_opts = []
    shown.help = f"{parameter.help}; off with {parameter.secondary_opts[0]}"
    return shown
