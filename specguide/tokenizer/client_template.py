"""Owns the rendering of a client's chat template, in a separate process that is killed when it
takes too long."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams

_SCRIPT = Path(__file__).with_name("template_child.py")


@dataclass(frozen=True)
class ClientTemplate:
    """A template, and its limits.

    source:    Jinja, like models' templates
    timeout_s: maximum time of a rendering, including the start of its process (some 0.1 s)
    max_bytes: maximum memory of the process
    max_chars: maximum length of the text
    """

    source: str
    timeout_s: float
    max_bytes: int
    max_chars: int

    def render(self, values: Mapping[str, Any]) -> str:
        """The text that it makes of the values of its variables. Raises InvalidParams for
        everything that is wrong with it."""
        job = json.dumps(
            {"template": self.source, "values": values, "max_chars": self.max_chars}
        ).encode()
        command = [
            sys.executable,
            "-s",
            str(_SCRIPT),
            str(os.getpid()),
            str(self.max_bytes),
            str(math.ceil(self.timeout_s)),
        ]
        # and without secrets of this process
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=path,
        ) as process:
            try:
                written, _ = process.communicate(job, timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                raise self._refused(f"it takes longer than {self.timeout_s:g} s") from None
            finally:
                process.kill()
        try:
            answer = json.loads(written)
        except ValueError:
            raise self._refused(
                f"it needs more than {self.max_bytes >> 20} MiB of memory or {self.timeout_s:g} s"
            ) from None
        if "error" in answer:
            raise self._refused(answer["error"])
        return str(answer["text"])

    @staticmethod
    def _refused(cause: str) -> InvalidParams:
        return InvalidParams(f"the chat_template cannot be used: {cause}", param="chat_template")
