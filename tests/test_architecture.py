"""The floor plan: a room imports only from lower levels, level 0 has its own order, and few rooms
know torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "specguide"
BENCHMARKS = ROOT / "benchmarks"
TRAINING = ROOT / "training"
TOPS = (PACKAGE, BENCHMARKS, TRAINING)

LEVELS: tuple[tuple[str, ...], ...] = (
    (
        "errors",
        "host",
        "other_engines",
        "inputs",
        "guide",
        "params",
        "drafts",
        "config",
        "images",
        "request_records",
        "request",
        "piggyback",
        "batch",
    ),
    ("native",),
    ("kernels", "tokenizer", "trace"),
    ("parallel",),
    ("cache", "layers", "sampling", "guided"),
    ("models", "scheduler", "slots"),
    ("speculation",),
    ("engine",),
    ("llm", "server", "doctor", "bench"),
    ("serve_ray",),
    ("cli",),
    ("__main__",),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
WITHOUT_TORCH = (*LEVELS[0], "scheduler")


@dataclass(frozen=True)
class Import:
    """One imported name: `module` in full, where it stands, and whether only a type checker sees
    it."""

    module: str
    line: int
    is_for_types: bool


def modules(package: Path = PACKAGE) -> list[Path]:
    return sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(module: str) -> str | None:
    """`specguide.cache.pages` → `cache`; None for the top package and for what is not ours."""
    parts = module.split(".")
    return parts[1] if parts[0] == "specguide" and len(parts) > 1 else None


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, *, is_package: bool) -> list[Import]:
    """Every import of a module wherever it stands: in a function, for types only, relative, by
    import_module."""
    base = module.split(".") if is_package else module.split(".")[:-1]
    return list(_imports(ast.parse(source), base, False))


def _imports(node: ast.AST, base: list[str], is_for_types: bool) -> Iterator[Import]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _imports(child, base, True)
        for child in node.orelse:
            yield from _imports(child, base, is_for_types)
        return
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, is_for_types)
    elif isinstance(node, ast.ImportFrom):
        prefix = base[: len(base) - node.level + 1] if node.level else []
        stem = ".".join([*prefix, *(node.module.split(".") if node.module else [])])
        for alias in node.names:
            yield Import(f"{stem}.{alias.name}", node.lineno, is_for_types)
    elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
        for argument in node.args[:1]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield Import(argument.value, node.lineno, is_for_types)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, base, is_for_types)


@cache
def imports_in(path: Path) -> list[Import]:
    return imports_of(path.read_text(), module_name(path), is_package=path.name == "__init__.py")


def floor_plan_breach(importer: str, imported: str) -> str | None:
    """Why room `importer` may not import room `imported`; None where it may."""
    if importer == imported:
        return None
    if LEVEL[importer] == LEVEL[imported] == 0:
        order = LEVELS[0]
        breaks_order = order.index(imported) > order.index(importer)
        return f"{imported} comes after {importer} in level 0" if breaks_order else None
    if LEVEL[imported] >= LEVEL[importer]:
        return f"{imported} is on level {LEVEL[imported]}, {importer} on level {LEVEL[importer]}"
    return None


def test_modules_say_what_they_own() -> None:
    every = [path for top in TOPS for path in modules(top)]
    silent = [label(path) for path in every if not ast.get_docstring(tree_of(path))]
    assert not silent, "these need a module docstring"


def test_modules_import_only_from_lower_levels() -> None:
    breaches = [
        f"{label(path)}:{found.line} imports {found.module}: {breach}"
        for path in modules()
        for found in imports_in(path)
        if (breach := breach_of(room_of(module_name(path)), room_of(found.module)))
    ]
    assert not breaches


def breach_of(importer: str | None, imported: str | None) -> str | None:
    """The same as floor_plan_breach, for any modules' rooms."""
    for room in (importer, imported):
        if room is not None and room not in LEVEL:
            return f"room {room!r} is not in the floor plan"
    if importer is None or imported is None:  # the top package opens the upper rooms on demand
        return None
    return floor_plan_breach(importer, imported)


def _imported(found: Import, known: dict[str, Path]) -> str:
    """The module that an imported name is, or stands in; "" for what is not ours."""
    module = found.module
    while module and module not in known:
        module = module.rpartition(".")[0]
    return module


@pytest.mark.parametrize("top", TOPS, ids=lambda top: top.name)
def test_no_imports_go_in_a_circle(top: Path) -> None:
    known = {module_name(path): path for path in modules(top)}
    graph = {name: {_imported(i, known) for i in imports_in(path)} for name, path in known.items()}
    for name, imported in graph.items():
        imported.discard(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports, those for types included, go in a circle: {error.args[1]}")


def _child(package: str, module: str) -> str | None:
    """The part of a package, module or folder, that a module is or stands in."""
    parents, parts = package.split("."), module.split(".")
    is_within = parts[: len(parents)] == parents and len(parts) > len(parents)
    return parts[len(parents)] if is_within else None


PACKAGES = [
    module_name(path) for top in TOPS for path in modules(top) if path.name == "__init__.py"
]


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_of_a_room_import_each_other_in_one_direction(package: str) -> None:
    top = ROOT / package.split(".")[0]
    known = {module_name(path): path for path in modules(top)}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        if importer := _child(package, name):
            found = {_child(package, _imported(each, known)) for each in imports_in(path)}
            graph.setdefault(importer, set()).update(filter(None, found - {importer}))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports among parts of {package} go in a circle: {error.args[1]}")


def test_benchmarks_import_parts_and_no_commands() -> None:
    """At the top of benchmarks/ each module is a command, but for `common`."""
    at_top = {module_name(path) for path in BENCHMARKS.glob("*.py") if path.name != "__init__.py"}
    commands = at_top - {"benchmarks.common"}
    for path in modules(BENCHMARKS):
        has_main = 'if __name__ == "__main__":' in path.read_text()
        assert has_main == (module_name(path) in commands), label(path)
        for found in imports_in(path):
            is_command = any(f"{found.module}.".startswith(f"{name}.") for name in commands)
            assert not is_command, f"{label(path)}:{found.line} imports {found.module}"


def test_no_frozen_object_changes_itself() -> None:
    found = [
        f"{label(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "object.__setattr__"
    ]
    assert not found, "these set a field of a frozen object"


def test_only_native_imports_the_extension() -> None:
    found = [
        f"{label(path)}:{it.line}"
        for path in modules()
        for it in imports_in(path)
        if room_of(module_name(path)) != "native" and "_native" in it.module.split(".")
    ]
    assert not found, "these import the extension; go through specguide.native"


def test_plain_rooms_have_no_torch() -> None:
    found = [
        f"{label(path)}:{it.line}"
        for path in modules()
        for it in imports_in(path)
        if room_of(module_name(path)) in WITHOUT_TORCH
        and it.module.split(".")[0] == "torch"
        and not it.is_for_types
    ]
    assert not found, "these import torch at run time"


def test_plain_rooms_and_a_front_can_be_imported_where_there_is_no_torch() -> None:
    """Each front would hold what torch loads, and start later."""
    lines = ["import sys", "sys.modules['torch'] = None", "import specguide"]
    lines += [f"import {name}" for name in map(module_name, modules()) if _is_plain(name)]
    lines += ["import specguide.server.processes.front"]
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr


def _is_plain(module: str) -> bool:
    return room_of(module) in WITHOUT_TORCH


def test_no_test_module_imports_another() -> None:
    """What tests share stands in tests/support/."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for found in imports_in(path):
            imported = [part for part in found.module.split(".") if part.startswith("test_")]
            where = f"{label(path)}:{found.line} imports {found.module}"
            assert not imported, f"{where}; move what both need to tests/support/"


def test_core_library_has_no_python() -> None:
    sources = [p for p in sorted((ROOT / "csrc").rglob("*")) if p.suffix in (".cc", ".h")]
    assert sources
    for path in sources:
        if not path.name.startswith("bind"):
            found = re.search(r'#\s*include\s*[<"](Python\.h|pybind11|torch/)', path.read_text())
            assert found is None, (
                f"{label(path)} includes {found.group(1) if found else ''}; only the bindings may"
            )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import specguide.engine", {"engine"}),
        ("from specguide import engine, cache", {"engine", "cache"}),
        ("from specguide.engine.executors.local import LocalExecutor", {"engine"}),
        ("def f():\n    from specguide.llm import LLM", {"llm"}),
        ("from ..engine import Engine", {"engine"}),
        ("from . import tensors", {"cache"}),
        ("import importlib\nimportlib.import_module('specguide.engine.stats')", {"engine"}),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from specguide.models import "
            "Decoder",
            {"models"},
        ),
    ],
)
def test_imports_are_found(source: str, expected: set[str]) -> None:
    rooms = {
        room_of(found.module)
        for found in imports_of(source, "specguide.cache.pages", is_package=False)
    }
    assert rooms - {None} == expected


def test_imports_for_types_are_told_apart() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\nelse:\n    import numpy"
    )
    found = {
        i.module: i.is_for_types for i in imports_of(source, "specguide.batch", is_package=False)
    }
    assert found["torch"] and not found["numpy"]


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("cache", "kernels", True),
        ("cache", "layers", False),
        ("kernels", "sampling", False),
        ("cli", "llm", True),
        ("batch", "request", True),
        ("errors", "params", False),
        ("speculation", "speculation", True),
        ("kernels", "batch", True),
    ],
)
def test_floor_plan_rule(importer: str, imported: str, allowed: bool) -> None:
    assert (floor_plan_breach(importer, imported) is None) == allowed


def test_the_page_shows_this_floor_plan():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| (.*) \|$", page, re.M)
    shown = [set(re.findall(r"`(\w+)/?`", re.sub(r"\([^)]*\)", "", row))) for row in rows]
    assert shown == [set(rooms) for rooms in LEVELS if rooms != ("__main__",)]
