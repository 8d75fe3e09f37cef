"""Owns what all benchmarks share: their help, how they find data, and how they print and keep one
JSON line."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specguide.bench.provenance import provenance
from specguide.config.resolved import Facts
from specguide.host import env

if TYPE_CHECKING:
    from specguide.models import Decoder

RESULTS_DIR = Path(__file__).parent / "results"


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help begins with `doc`, a module's docstring, unchanged."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def data_path(*parts: str) -> Path:
    """Path of a data set. Exits with a message if `SPECGUIDE_DATA` is not set, or does not have
    it."""
    folder = env.data_dir()
    if folder is None or not folder.joinpath(*parts).exists():
        sys.exit(
            f"this benchmark reads {'/'.join(parts)}: set SPECGUIDE_DATA to the folder that holds "
            "it"
        )
    return folder.joinpath(*parts)


def facts_of(target: Decoder) -> Facts:
    """Facts of a target that is loaded already, without a head of its own."""
    dtype = str(target.dtype).removeprefix("torch.")
    return Facts(str(target.device), dtype, target.config.max_position_embeddings)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a JSON Lines file, plain or .gz."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def emit(
    name: str, config: dict[str, Any], result: Any, ceiling: Any = None, *, save: bool = True
) -> None:
    """Print one JSON line and, if `save`, keep it as benchmarks/results/<name>.json. Figures of a
    GPU are not replaced by those of a CPU.

    ceiling: the physical limit with which the result is compared, if there is one.
    """
    record = {
        "benchmark": name,
        **provenance(),
        "config": config,
        "result": result,
        "ceiling": ceiling,
    }
    if save:
        _keep(RESULTS_DIR / f"{name}.json", record)
    print(json.dumps(record, ensure_ascii=False), flush=True)


def _keep(path: Path, record: dict[str, Any]) -> None:
    before = json.loads(path.read_text()) if path.exists() else {"hardware": {}}
    if (gpu := before["hardware"].get("gpu")) and "gpu" not in record["hardware"]:
        print(f"not saved: {path.name} has figures of a GPU ({gpu})", file=sys.stderr)
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n")
