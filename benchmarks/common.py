"""Owns what every benchmark shares: finding data, naming the hardware, printing one JSON line and keeping it."""

from __future__ import annotations

import gzip
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from specguide import env

RESULTS_DIR = Path(__file__).parent / "results"


def data_path(*parts: str) -> Path:
    """Path of a data set. Exits with what to do when `SPECGUIDE_DATA` is unset or lacks it."""
    folder = env.data_dir()
    if folder is None or not folder.joinpath(*parts).exists():
        sys.exit(f"this benchmark reads {'/'.join(parts)}: set SPECGUIDE_DATA to the folder that holds it")
    return folder.joinpath(*parts)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a JSON Lines file, plain or .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def commit() -> str:
    """Commit of the checkout, "+" after it when files differ from it; of a copy, `SPECGUIDE_COMMIT`."""
    def git(*args: str) -> str:
        return subprocess.run(("git", *args), cwd=RESULTS_DIR.parent, capture_output=True, text=True).stdout.strip()

    if named := os.environ.get("SPECGUIDE_COMMIT"):
        return named
    if shutil.which("git") is None or not git("rev-parse", "HEAD"):
        return "unknown"
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def command() -> str:
    """What this process was called with, as one would type it."""
    spec = sys.modules["__main__"].__spec__
    return shlex.join(["python", *(["-m", spec.name] if spec else sys.argv[:1]), *sys.argv[1:]])


def hardware() -> dict[str, Any]:
    """CPU name, cores and load (runnable threads, mean of the last minute); the GPU's name where torch sees one."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")]
        model = names[0] if names else model
    found: dict[str, Any] = {"cpu": model, "num_cores": len(os.sched_getaffinity(0)),
                             "load": round(os.getloadavg()[0], 1)}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def emit(name: str, config: dict[str, Any], result: Any, ceiling: Any = None, *, save: bool = True) -> None:
    """Prints one JSON line and, where `save`, keeps it as benchmarks/results/<name>.json.

    ceiling: the physical limit that the result is held against, where there is one.
    """
    record = {"benchmark": name, "command": command(), "commit": commit(),
              "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "hardware": hardware(),
              "config": config, "result": result, "ceiling": ceiling}
    if save:
        RESULTS_DIR.mkdir(exist_ok=True)
        (RESULTS_DIR / f"{name}.json").write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n")
    print(json.dumps(record, ensure_ascii=False), flush=True)
