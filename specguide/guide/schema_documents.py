"""Owns the documents to which JSON Schemas may refer. The user gives them; none is ever fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams


class SchemaDocuments(Mapping[str, Any]):
    """JSON Schemas by URI, without fragments. Equal where their texts are equal."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._text = _canonical(schemas)
        self._schemas: dict[str, Any] = {
            uri.removesuffix("#"): schema for uri, schema in json.loads(self._text).items()
        }
        for uri, schema in self._schemas.items():
            if not isinstance(schema, (dict, bool)) or "#" in uri:
                raise _wrong(
                    f"{uri!r} must be a URI without a fragment (#…), and its value a schema"
                )

    def __getitem__(self, uri: str) -> Any:
        return self._schemas[uri]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def __len__(self) -> int:
        return len(self._schemas)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaDocuments) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def schema_documents(given: Mapping[str, Any] | str | Path | None) -> SchemaDocuments | None:
    """The documents of a mapping, or of a JSON file with one. Raises InvalidParams."""
    if given is None or isinstance(given, SchemaDocuments):
        return given
    if isinstance(given, Mapping):
        return SchemaDocuments(given)
    try:
        schemas = json.loads(Path(given).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(f"{given} cannot be read as JSON: {error}") from error
    if not isinstance(schemas, dict):
        raise _wrong(f"{given} must contain a JSON object")
    return SchemaDocuments(schemas)


def _canonical(schemas: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(schemas), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(f"the given schemas cannot be written as JSON: {error}") from error


def _wrong(why: str) -> InvalidParams:
    return InvalidParams(
        f"schema_documents must map URIs to JSON Schemas: {why}", param="schema_documents"
    )
