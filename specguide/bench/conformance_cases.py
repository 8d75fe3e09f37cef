"""Owns how the conformance benchmark finds schemas and their instances: in files of the usual
forms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide.bench.tasks import parsed
from specguide.errors import InvalidParams

_DRAFTS = {
    f"draft{number}": f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 6, 7)
}
_INSTANCES = {".valid": True, ".invalid": False}


@dataclass
class Case:
    """A schema of a data set with its instances: (value, whether it is valid)."""

    name: str
    data_set: str
    schema: Any
    instances: list[tuple[Any, bool]]


def load_cases(paths: Iterable[Path]) -> list[Case]:
    """All schemas in files, and in folders with their subfolders.

    NAME.json is a schema, whose instances may be beside it, one per line, in NAME.valid.jsonl and
    NAME.invalid.jsonl; or a list of groups {"schema", "tests": [{"data", "valid"}]}, as in
    JSON-Schema-Test-Suite, where the name of a folder, such as draft7, is the draft of schemas that
    state none. NAME.jsonl has one record per line: {"schema"} with "tests" as in JSONSchemaBench,
    "completion" as in JSON Mode Eval, or one "data" and "valid"; or the "tools" of BFCL. Raises
    InvalidParams if there is no schema, or one cannot be read.
    """
    cases: list[Case] = []
    for path in paths:
        if not path.exists():
            raise InvalidParams(f"{path}: there is no such file or folder", param="paths")
        files = [path]
        if path.is_dir():
            files = sorted(one for ending in ("*.json", "*.jsonl") for one in path.rglob(ending))
        for file in files:
            if Path(file.stem).suffix not in _INSTANCES:
                cases += _of_file(file, path if path.is_dir() else path.parent)
    if not cases:
        raise InvalidParams(
            f"no schemas found in {', '.join(map(str, paths))}: only files *.json and *.jsonl are "
            "read",
            param="paths",
        )
    return cases


def grouped(cases: Iterable[Case]) -> list[Case]:
    """Cases of the same data set and schema merged into one, with all their instances and the first
    one's name."""
    found: dict[str, Case] = {}
    for case in cases:
        one = found.setdefault(
            f"{case.data_set} {json.dumps(case.schema)}",
            Case(case.name, case.data_set, case.schema, []),
        )
        one.instances += case.instances
    return list(found.values())


def with_draft(schema: Any, draft: str) -> Any:
    """A schema that states its draft, such as "draft7", added if it is missing and needed."""
    if not isinstance(schema, dict) or "$schema" in schema or draft not in _DRAFTS:
        return schema
    return {"$schema": _DRAFTS[draft], **schema}


def _of_file(path: Path, root: Path) -> list[Case]:
    inside = path.relative_to(root)
    data_set = (
        path.stem
        if path.suffix == ".jsonl"
        else (inside.parent.as_posix() if inside.parent.name else root.name)
    )
    draft = next((part for part in path.parts if part in _DRAFTS), "")
    try:
        schemas = list(_of_lines(path) if path.suffix == ".jsonl" else _of_json(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidParams(
            f"{path} has a record in an unknown format, which should be a schema with instances: "
            f"{error!r}",
            param="paths",
        ) from error
    name = inside.with_suffix("").as_posix()
    return grouped(
        Case(
            name if len(schemas) == 1 else f"{name}#{number}",
            data_set,
            with_draft(schema, draft),
            instances,
        )
        for number, (schema, instances) in enumerate(schemas)
    )


def _of_json(path: Path) -> Iterator[tuple[Any, list[tuple[Any, bool]]]]:
    (content,) = _read(path, [path.read_text("utf-8", "replace")])
    is_group = isinstance(content, dict) and {"schema", "tests"} <= content.keys()
    if is_group or isinstance(content, list):
        groups = [content] if is_group else content
        yield from ((group["schema"], _tests(group["tests"])) for group in groups)
        return
    instances = []
    for ending, is_valid in _INSTANCES.items():
        beside = path.with_suffix(f"{ending}.jsonl")
        if beside.exists():
            instances += [(value, is_valid) for value in _read_lines(beside)]
    yield content, instances


def _of_lines(path: Path) -> Iterator[tuple[Any, list[tuple[Any, bool]]]]:
    for record in _read_lines(path):
        if "tools" in record:
            yield from ((tool["function"]["parameters"], []) for tool in record["tools"])
            continue
        schema = record["schema"] if "schema" in record else record["json_schema"]
        instances = _tests(record.get("tests") or ())
        if "completion" in record:
            instances.append((parsed(record["completion"]), True))
        if "data" in record:
            instances.append((record["data"], record["valid"]))
        yield parsed(schema), instances


def _tests(tests: Sequence[Mapping[str, Any]]) -> list[tuple[Any, bool]]:
    return [(test["data"], test["valid"]) for test in tests]


def _read_lines(path: Path) -> Iterator[Any]:
    return _read(
        path, [line for line in path.read_text("utf-8", "replace").split("\n") if line.strip()]
    )


def _read(path: Path, texts: Iterable[str]) -> Iterator[Any]:
    for number, text in enumerate(texts, 1):
        try:
            yield json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidParams(f"{path}, JSON text {number}: {error}", param="paths") from error
