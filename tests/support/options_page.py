"""Owns docs/options.md: every option of the command line, from the commands themselves.

`python tests/support/options_page.py` writes it, in a checkout with PYTHONPATH=.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from specguide.cli import app

PAGE = Path(__file__).parent.parent.parent / "docs" / "options.md"
_RUN = ("generate", "chat", "serve", "run-batch")
"""Commands that run a model, and have most of their options in common."""
_HEAD = """# Options

Every option of the command line, as `specguide COMMAND --help` has it. In Python the same settings
are fields of [`EngineConfig`](../specguide/config/engine.py), `CacheConfig` and `TransferConfig`
there, [`SpecConfig`](../specguide/config/spec.py), [`GuideConfig`](../specguide/config/guide.py)
and [`ServerConfig`](../specguide/server/config.py); `LLM` takes those of the first two by name.
This page is written by `tests/support/options_page.py`, and a test sees to it that it is up to
date.

An option without a default is left out, or off. Sizes may end with k, m, g (thousands) or K, M, G
(1,024s). Options by the names of vLLM, SGLang and TensorRT-LLM are taken where they change nothing
here, and refused with what to do instead elsewhere.
"""


def commands() -> dict[str, Any]:
    """All commands by their names, "bench serve" among them."""
    found: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= (
            {name: command}
            if inner is None
            else {f"{name} {part}": each for part, each in inner.items()}
        )
    return found


def page() -> str:
    """The page, as Markdown."""
    every = commands()
    parts = [_HEAD, "## Commands that run a model\n"]
    parts += [f"- `{_usage(name, every[name])}`: {_first(every[name].help)}" for name in _RUN]
    parts.append("\nIn the column of commands, `all` stands for these four.\n")
    for panel, options in _by_panel({name: every[name] for name in _RUN}).items():
        rows = ((flags, _told(names), *words) for (flags, words), names in options.items())
        parts.append(_table(panel, ("option", "commands", "default", "meaning"), rows))
    for name, command in every.items():
        if name not in _RUN:
            rows = ((_flags(option), *_words(option)) for option in _options(command))
            head = f"{_first(command.help)}\n\n"
            parts.append(
                f"## {name}\n\n`{_usage(name, command)}`: {head}"
                + _table(None, ("option", "default", "meaning"), rows)
            )
    return "\n".join(parts)


def _by_panel(run: dict[str, Any]) -> dict[str, dict[tuple[str, tuple[str, str]], list[str]]]:
    """Options by panel, each as spelt and told, with the commands that have it."""
    panels: dict[str, dict[tuple[str, tuple[str, str]], list[str]]] = {}
    for name, command in run.items():
        for option in _options(command):
            panel = panels.setdefault(option.rich_help_panel or "Of the command", {})
            panel.setdefault((_flags(option), _words(option)), []).append(name)
    return panels


def _options(command: Any) -> Iterator[Any]:
    return (each for each in command.params if each.param_type_name == "option")


def _usage(name: str, command: Any) -> str:
    words = [
        (each.metavar or each.name).strip("[]").upper()
        for each in command.params
        if each.param_type_name == "argument"
    ]
    return " ".join(["specguide", name, *(f"[{word}]" for word in words)])


def _flags(option: Any) -> str:
    return ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def _words(option: Any) -> tuple[str, str]:
    default = option.default
    is_told = default is not None and default is not False and default not in ((), [])
    told = "on" if default is True else f"`{default}`" if is_told else ""
    help_words = " ".join((option.help or "").split()).replace("|", r"\|")
    variable = f" (or the variable `{option.envvar}`)" if option.envvar else ""
    return told, help_words + variable


def _told(names: list[str]) -> str:
    return "all" if len(names) == len(_RUN) else ", ".join(names)


def _first(words: str | None) -> str:
    return " ".join((words or "").split())


def _table(title: str | None, heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    found = list(rows)
    if not found:
        return "It has no options.\n"
    lines = [heads, ("---",) * len(heads), *found]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return table if title is None else f"### {title}\n\n{table}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
