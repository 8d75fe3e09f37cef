"""Owns the options that are made from configuration classes: one for each field, with the words of
the class's docstring as help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from specguide.cli.whole_numbers import length_or_auto, whole_number
from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig, TransferConfig
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams, SpecguideError

Given = dict[type[Any], dict[str, Any]]
_ENTRY = re.compile(r"(\w+(?:, \w+)*): +(.*)")
_WORD = re.compile(r"(?<![\w'\"`/#.=-])[a-z]+[a-z_.]*[a-z](?![\w'\"`/=-])", re.ASCII)
"""A word of an error's message, if it is not a part of a text, a path or an option in it."""


@dataclass(frozen=True)
class ConfigOptions:
    """How the fields of a configuration become options.

    config:   the dataclass
    panel:    the heading under which --help shows them
    names:    names of options that differ from their fields' names; None: the field has no option
    defaults: defaults of options that differ from their fields' defaults
    variables: environment variables that are used where an option is not given
    known:    replacements for {name} in the docstring's words
    within:   the field of EngineConfig with this configuration, as errors write it before a field:
              spec.model
    """

    config: type[Any]
    panel: str
    names: Mapping[str, str | None] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    within: str | None = None


@dataclass(frozen=True)
class Without:
    """What an engine leaves out.

    no_spec:   decode plainly, without drafts
    no_guides: refuse requests with a guide: no schemas, no tools. Iterations then contain no
               grammar work
    """

    no_spec: bool = False
    no_guides: bool = False


ENGINE = ConfigOptions(EngineConfig, "Engine", {"model": None})
CACHE = ConfigOptions(CacheConfig, "KV cache")
TRANSFER = ConfigOptions(TransferConfig, "Disaggregated prefill")
GUIDE = ConfigOptions(
    GuideConfig,
    "Grammars",
    {
        "backend": "guide_backend",
        "num_threads": "num_grammar_threads",
        "cache_bytes": "grammar_cache_bytes",
        "max_depth": "max_guide_depth",
        "max_values": "max_guide_values",
        "max_rules": "max_guide_rules",
        "max_source_bytes": "max_guide_bytes",
    },
    within="guide",
)
SPEC = ConfigOptions(
    SpecConfig,
    "Speculation",
    {"method": "spec_method", "model": "head", "quantization": "draft_quantization"},
    {"method": None},
    within="spec",
)
WITHOUT = ConfigOptions(Without, "Model")
WITHOUT_SPEC = ConfigOptions(Without, "Model", {"no_guides": None})


def field_words(config: type[Any]) -> dict[str, str]:
    """The words of a dataclass's docstring for each field, from lines `name: words` or `name, name:
    words`."""
    words: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(config.__doc__ or "").splitlines():
        entry = _ENTRY.fullmatch(line)
        if entry:
            names = entry[1].split(", ")
            words |= dict.fromkeys(names, entry[2])
        elif line.startswith(" ") and names:
            words |= {name: f"{words[name]} {line.strip()}" for name in names}
        else:
            names = []
    return words


def takes(*sources: ConfigOptions) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of `sources`.

    The command's parameter `given` gets, for each configuration class, its fields' values by name.
    Errors that name a field name its option instead.
    """
    added = _options(sources)
    reworded = in_option_names(*sources)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()

        @wraps(command)
        def run(**values: Any) -> None:
            given: Given = {source.config: {} for source in sources}
            for name, (source, entry) in added.items():
                value = values.pop(name)
                given[source.config][entry.name] = tuple(value) if type(value) is list else value
            try:
                command(given=given, **values)
            except SpecguideError as error:
                error.args = (reworded(str(error)),)
                raise

        parameters = [
            *(parameter for parameter in own if parameter.name != "given"),
            *(_parameter(name, *place) for name, place in added.items()),
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__  # type: ignore[attr-defined]  # its parameters are not these
        return run

    return decorate


def in_option_names(*sources: ConfigOptions) -> Callable[[str], str]:
    """A function that replaces fields of `sources` in an error's message by their options."""
    flags = _flags_by_field(_options(sources))
    return partial(_WORD.sub, lambda word: flags.get(word[0], word[0]))


def engine_config(
    model: Path | None, given: Given, guide_options: ConfigOptions = GUIDE
) -> EngineConfig:
    """The engine's configuration for the options. Raises InvalidParams."""
    without = Without(**given[Without])
    for is_without, flag, source in (
        (without.no_spec, "--no-spec", SPEC),
        (without.no_guides, "--no-guides", guide_options),
    ):
        if is_without:
            _refuse_beside(flag, source, given[source.config])
    return EngineConfig(
        model,
        spec=None if without.no_spec else _spec_config(model, given[SpecConfig]),
        guide=None if without.no_guides else GuideConfig(**given[GuideConfig]),
        cache=CacheConfig(**given[CacheConfig]),
        **given[EngineConfig],
    )


def _spec_config(model: Path | None, given: Mapping[str, Any]) -> SpecConfig | None:
    """The configuration of speculation; None where nothing can draft. Raises InvalidParams where
    options would then have no effect."""
    if given["method"] is None and model is not None and given["model"] is None:
        flag = flag_given(SPEC, given)
        if flag is not None:
            raise InvalidParams(f"{flag} needs --spec-method or --head beside it", param=flag[2:])
        return None
    tree = given["tree"] and _dynamic_tree(given["tree"])
    return SpecConfig(**{**given, "method": given["method"] or "eagle3", "tree": tree})


def _refuse_beside(without: str, source: ConfigOptions, given: Mapping[str, Any]) -> None:
    """Raises InvalidParams for an option of something that the engine leaves out."""
    flag = flag_given(source, given)
    if flag is not None:
        raise InvalidParams(
            f"{without} and {flag} contradict each other: leave one of them out", param=flag[2:]
        )


def flag_given(source: ConfigOptions, given: Mapping[str, Any]) -> str | None:
    """The first of these options that is not at its default; None where all are."""
    defaults = {entry.name: entry.default for entry in fields(source.config)}
    defaults |= dict(source.defaults)
    name = next((name for name, value in given.items() if value != defaults[name]), None)
    return name and _flag(source.names.get(name) or name)


def _dynamic_tree(text: str) -> DynamicTree:
    numbers = text.split(",")
    if len(numbers) != 3 or not all(number.strip().isdecimal() for number in numbers):
        raise InvalidParams(
            f"--tree takes TOP_K,DEPTH,NODES, for example 10,6,60; found {text!r}", param="tree"
        )
    return DynamicTree(*map(int, numbers))


def _options(sources: Sequence[ConfigOptions]) -> dict[str, tuple[ConfigOptions, Field[Any]]]:
    """The fields of `sources` that are options, by the options' names."""
    return {
        name: (source, entry)
        for source in sources
        for entry in fields(source.config)
        if (name := _option_name(source, entry)) is not None
    }


def _flags_by_field(added: Mapping[str, tuple[ConfigOptions, Field[Any]]]) -> dict[str, str]:
    """Options by the words for their fields in errors. Words that are also plain English are left
    out."""
    flags: dict[str, str] = {}
    for name, (source, entry) in added.items():
        words = (name, entry.name, f"{source.within}.{entry.name}")
        flags |= {word: _flag(name) for word in words if not word.isalpha()}
    return flags


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _option_name(source: ConfigOptions, entry: Field[Any]) -> str | None:
    """The name of a field's option; None for a configuration inside the configuration, which has
    its own options."""
    if (entry.default is MISSING and entry.default_factory is not MISSING) or entry.name == "spec":
        return None
    return source.names.get(entry.name, entry.name)


def _parameter(name: str, source: ConfigOptions, entry: Field[Any]) -> inspect.Parameter:
    kind = _option_kind(get_type_hints(source.config)[entry.name])
    parser = length_or_auto if entry.name == "max_model_len" else whole_number
    written: dict[str, Any] = {"parser": parser, "metavar": "INTEGER"} if kind is int else {}
    default = source.defaults.get(entry.name, entry.default)
    if default is None:
        kind |= None
    flag = _flag(name)
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if default is True else flag,
        help=_help(source, entry.name),
        rich_help_panel=source.panel,
        envvar=source.variables.get(entry.name),
        **written,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _help(source: ConfigOptions, name: str) -> str:
    words = field_words(source.config).get(name, "")  # python -OO drops docstrings
    for mark, known in source.known.items():
        words = words.replace(f"{{{mark}}}", known)
    return words[:1].upper() + words[1:]


def _option_kind(hint: Any) -> Any:
    """The type that an option of a field of this type takes: the last of several types, and text
    for types that are not plain values."""
    if get_origin(hint) is tuple:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    *_, kind = (kind for kind in get_args(hint) or (hint,) if kind is not type(None))
    return str if is_dataclass(kind) or inspect.isabstract(kind) else kind
