"""Owns the provenance of a measurement: command, version, date and machine."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specguide.host import machine
from specguide.host.release import installed_version

_ROOT = Path(__file__).parent.parent.parent
_KEY_FLAG = "--api-key"


def provenance() -> dict[str, Any]:
    """The provenance in every record: command, version, commit, date (UTC) and hardware."""
    return {
        "command": command(),
        "version": installed_version(),
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hardware": hardware(),
    }


def commit() -> str | None:
    """Commit of the checkout, with "+" if files differ from it; in a copy, `SPECGUIDE_COMMIT`. None
    if specguide is not a checkout."""

    def git(*args: str) -> str:
        return subprocess.run(
            ("git", *args), cwd=_ROOT, capture_output=True, text=True
        ).stdout.strip()

    if named := os.environ.get("SPECGUIDE_COMMIT"):
        return named
    if not (_ROOT / ".git").exists() or shutil.which("git") is None or not git("rev-parse", "HEAD"):
        return None
    return git("rev-parse", "--short", "HEAD") + (
        "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    )


def command() -> str:
    """The command line of this process, as one would type it, without API keys."""
    spec = sys.modules["__main__"].__spec__
    program = Path(sys.argv[0])
    if spec is not None:
        name = ["python", "-m", spec.name.removesuffix(".__main__")]
    else:
        name = ["python", sys.argv[0]] if program.suffix else [program.name]
    return " ".join(_told([*name, *sys.argv[1:]]))


def _told(words: list[str]) -> Iterator[str]:
    for before, word in zip(["", *words], words, strict=False):
        if before == _KEY_FLAG:
            yield "…"
        elif word.startswith(f"{_KEY_FLAG}="):
            yield f"{_KEY_FLAG}=…"
        else:
            yield shlex.quote(word)


def hardware() -> dict[str, Any]:
    """CPU name, cores and load (runnable threads, mean of the last minute); and the GPU's name if
    torch sees one."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    found: dict[str, Any] = {
        "cpu": model,
        "num_cores": machine.num_cores(),
        "load": round(os.getloadavg()[0], 1),
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found
