"""Renders one client's chat template under limits, and exits; `client_template` runs it as a
script.

It reads a job from standard input and writes its answer to standard output, both as JSON; it knows
nothing of the server. As a module it owns the Jinja environment in which chat templates are read,
which is that of `transformers`.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


class _Generation(Extension):
    """`{% generation %}`, which marks the assistant's text and has no effect on the output."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(
            parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line
        )


class _PlainNamespace(Namespace):
    """A namespace for values only: names that have a meaning in Python are refused."""

    def __init__(*args: Any, **values: Any) -> None:
        self, *others = args
        Namespace.__init__(self)
        for name, value in dict(*others, **values).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise SecurityError(f"a namespace has no {name!r}")
        super().__setitem__(name, value)


def environment() -> ImmutableSandboxedEnvironment:
    """The Jinja environment that chat templates are written for."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = _to_json
    made.globals |= {
        "raise_exception": _raise,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": lambda *args, **values: dict(*args, **values),
        "namespace": _PlainNamespace,
    }
    return made


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> None:
    raise TemplateError(message)


def _limit(parent: int, num_bytes: int, seconds: int) -> None:
    """Limit this process, and have it killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before it could be watched
        sys.exit(1)
    for kind, most in (
        (resource.RLIMIT_AS, num_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _answer(written: str) -> dict[str, str]:
    try:
        job = json.loads(written)
        text = environment().from_string(job["template"]).render(**job["values"])
    except MemoryError:
        return {"error": "it needs more memory than it is allowed"}
    except Exception as error:
        return {"error": (str(error) or type(error).__name__)[:500]}
    if len(text) > job["max_chars"]:
        return {
            "error": f"it wrote a prompt of {len(text)} characters, and at most "
            f"{job['max_chars']} are allowed"
        }
    return {"text": text}


if __name__ == "__main__":
    _limit(*map(int, sys.argv[1:]))
    json.dump(_answer(sys.stdin.read()), sys.stdout)
