"""Nothing here lets a checkpoint's own code run, nor lets `transformers` ask on standard input
whether it may."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOADERS = {"from_pretrained", "from_config"}


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LOADERS
    ]


def is_refusing(call: ast.Call) -> bool:
    return any(
        keyword.arg == "trust_remote_code"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
        for keyword in call.keywords
    )


def test_every_loader_refuses_it() -> None:
    found = [
        call
        for folder in ("specguide", "training", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for call in calls(path)
    ]
    assert len(found) >= 5
    assert [place for place, call in found if not is_refusing(call)] == []
