"""Owns the reading of structural tags as vLLM and SGLang take them: in xgrammar's form, and in an
older one with `structures` and `triggers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from specguide.errors import InvalidParams


def _as_it_is(schema: Any) -> Any:
    return schema


def tag_of(tag: Any, param: str, written: Callable[[Any], Any] = _as_it_is) -> Any:
    """A tag in xgrammar's form; anything else unchanged. Raises InvalidParams.

    param:   the field of the tag
    written: converts the older form's schemas
    """
    described = _described(tag)
    if described is None or described.get("structures") is None:
        return tag
    triggers = described.get("triggers")
    structures = described["structures"]
    if not isinstance(triggers, list) or not triggers:
        raise InvalidParams(
            "structures need triggers, a non-empty list of strings: the begin of each structure "
            "starts with one of them",
            param=f"{param}.triggers",
        )
    if not isinstance(structures, list):
        raise InvalidParams("structures must be a list", param=f"{param}.structures")
    tags = [
        _tag(structure, f"{param}.structures[{index}]", written)
        for index, structure in enumerate(structures)
    ]
    form = {"type": "triggered_tags", "triggers": triggers, "tags": tags}
    if described.get("at_least_one") is not None:
        form["at_least_one"] = described["at_least_one"]
    return {"type": "structural_tag", "format": form}


def _described(tag: Any) -> Mapping[str, Any] | None:
    if isinstance(tag, str):
        try:
            tag = json.loads(tag)
        except (ValueError, RecursionError):  # the guide will report it
            return None
    return tag if isinstance(tag, Mapping) else None


def _tag(structure: Any, param: str, written: Callable[[Any], Any]) -> dict[str, Any]:
    described = structure if isinstance(structure, Mapping) else {}
    for name in ("begin", "end"):
        if not isinstance(described.get(name), str):
            raise InvalidParams(
                'a structure must be {"begin": …, "schema": …, "end": …}', param=f"{param}.{name}"
            )
    schema = described.get("schema")
    return {
        "type": "tag",
        "begin": described["begin"],
        "content": {
            "type": "json_schema",
            "json_schema": {"type": "object"} if schema is None else written(schema),
        },
        "end": described["end"],
    }
