"""Owns commands that accept options by their names in other engines."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from specguide.cli.help import HelpOfManyOptions
from specguide.cli.options_file import with_file
from specguide.errors import InvalidParams
from specguide.other_engines import OTHER_BENCH_OPTIONS, OTHER_OPTIONS, OtherOption

_TAKE_MANY = {
    "--served-model-name": "--served-model-alias",
    "--api-key": "--api-key",
    "--lora-modules": "--lora-modules",
}
"""Options that take several values in vLLM, and our option for each further one."""


class KnowsOtherEngines(HelpOfManyOptions):
    """A command that accepts options of other engines that make no difference here, and refuses the
    others with advice."""

    others: ClassVar[Mapping[str, OtherOption]] = OTHER_OPTIONS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {written for parameter in self.params for written in parameter.opts}
        flags = {
            written
            for parameter in self.params
            if getattr(parameter, "is_flag", False) and not parameter.secondary_opts
            for written in parameter.opts
        }
        kept = _without_denials(_ours(args, own, self.others), flags)
        return super().parse_args(ctx, self.read_names(ctx, kept))

    def read_names(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, where a command takes several names for a model."""
        return args


class MeasuresServers(KnowsOtherEngines):
    """A command that puts a server under load, as other engines' commands do."""

    others = OTHER_BENCH_OPTIONS


class ServesNames(KnowsOtherEngines):
    """A command whose `--served-model-name`, `--api-key` and `--lora-modules` take several values,
    as in vLLM."""

    def read_names(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments with an option for each value. A folder as the last value is the model,
        where none is given."""
        for written, further in _TAKE_MANY.items():
            first, values, rest = _values_apart(args, written)
            if values and Path(values[-1]).is_dir():
                given, *_ = self.make_parser(ctx).parse_args(_plain([*first, *rest]))
                if not _has_model(given):
                    rest = [values.pop(), *rest]
            args = [*first, *(f"{further}={value}" for value in values), *rest]
        return args


class ReadsFile(ServesNames):
    """A command that also takes its options from a file, `--config FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_file(args, _TAKE_MANY))


def _has_model(given: dict[str, Any]) -> bool:
    return any(isinstance(given.get(name), str) for name in ("model", "model_option"))


def _plain(args: list[str]) -> list[str]:
    """The arguments without further values of the options that take many."""
    for written in _TAKE_MANY:
        first, _, rest = _values_apart(args, written)
        args = [*first, *rest]
    return args


def _values_apart(args: list[str], option: str) -> tuple[list[str], list[str], list[str]]:
    """Arguments up to an option's first value, its further values, and the rest."""
    written = next((arg for arg in args if arg.partition("=")[0] == option), None)
    if written is None:
        return args, [], []
    start = args.index(written) + (1 if "=" in written else 2)
    rest = args[start:]
    num_names = next((i for i, arg in enumerate(rest) if arg.startswith("-")), len(rest))
    return args[:start], rest[:num_names], rest[num_names:]


def _ours(args: list[str], own: Collection[str], others: Mapping[str, OtherOption]) -> list[str]:
    """The arguments without options of other engines; the command's own options stay. Raises
    InvalidParams for all those that cannot be ignored, in one message."""
    kept, refused = list[str](), list[str]()
    rest = deque(args)
    while rest:
        arg = rest.popleft()
        if arg == "--":  # only arguments follow
            kept += [arg, *rest]
            break
        written, has_value, value = arg.partition("=")
        name = written.partition(".")[0].lstrip("-").replace("-", "_")  # of --name.field, the name
        is_denied = name.startswith("no_")
        name = name.removeprefix("no_")
        option = others.get(name) if arg.startswith("-") else None
        dashed = written.replace("_", "-")  # vLLM accepts both
        if option is None or dashed in own:
            kept.append(dashed + has_value + value if dashed in own else arg)
            continue
        if option.same is not None and not is_denied:
            kept.append(_on_the_command_line(option.same))
            continue
        if not has_value:
            value = str(not is_denied) if option.is_flag else _value(rest, option)
        try:
            option.check(name, value, _on_the_command_line)
        except InvalidParams as error:
            refused.append(str(error))
    if refused:
        raise InvalidParams("\n".join(refused))
    return kept


def _without_denials(args: list[str], flags: Collection[str]) -> list[str]:
    """The arguments without `--no-FLAG` of flags that are off by themselves, and without FLAG
    before it."""
    kept = list[str]()
    for arg in args:
        flag = f"--{arg.removeprefix('--no-')}".replace("_", "-")
        if arg.startswith("--no-") and flag in flags:
            kept = [one for one in kept if one != flag]
        else:
            kept.append(arg)
    return kept


def _value(rest: deque[str], option: OtherOption) -> str:
    """The value of an option. Removes it from the arguments."""
    value = rest.popleft() if rest else ""
    while option.takes_many and rest and not rest[0].startswith("-"):
        rest.popleft()
    return value


def _on_the_command_line(name: str) -> str:
    if name == "spec":
        return "--spec-method, --head and --num-draft-tokens"
    return f"--{name.replace('_', '-')}"
