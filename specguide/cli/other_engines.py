"""Owns commands that know options by the names that they have in other engines."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from specguide.cli.help import HelpOfManyOptions
from specguide.other_engines import OTHER_OPTIONS


class KnowsOtherEngines(HelpOfManyOptions):
    """A command that takes what changes nothing here, and refuses the rest with what to do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {written for parameter in self.params for written in parameter.opts}
        return super().parse_args(ctx, list(_ours(args, own)))


def _ours(args: list[str], own: Collection[str]) -> Iterator[str]:
    """The arguments without options of other engines; the command's own options stay. Raises
    InvalidParams for an option that cannot be left out."""
    rest = iter(args)
    for arg in rest:
        if arg == "--":  # behind it there are no options
            yield arg
            yield from rest
            return
        written, has_value, value = arg.partition("=")
        name = written.lstrip("-").replace("-", "_")
        is_denied = name.startswith("no_")
        option = OTHER_OPTIONS.get(name.removeprefix("no_")) if arg.startswith("-") else None
        if option is None or written in own:
            yield arg
            continue
        if not has_value:
            value = str(not is_denied) if option.is_flag else next(rest, "")
        option.check(name.removeprefix("no_"), value, _on_the_command_line)


def _on_the_command_line(name: str) -> str:
    if name == "spec":
        return "--spec-method, --head and --num-draft-tokens"
    return f"--{name.replace('_', '-')}"
