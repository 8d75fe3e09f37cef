"""The commands of specguide, in this process or in one of their own."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from specguide.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
PERSON = str(EXAMPLES / "person.json")
TEXT = (EXAMPLES / "person.txt").read_text()
COMMAND = [sys.executable, "-m", "specguide"]


def in_a_process(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command as users start it."""
    return subprocess.run(
        [*COMMAND, *args], input=stdin, capture_output=True, text=True, timeout=120
    )


def specguide(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command, in this process: imports take seconds."""
    streams = io.StringIO(stdin), io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["specguide", *args])
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        with pytest.raises(SystemExit) as end:
            main()
    return subprocess.CompletedProcess(
        args, end.value.code, streams[1].getvalue(), streams[2].getvalue()
    )
