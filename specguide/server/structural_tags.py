"""Owns structural tags of requests: in xgrammar's form, and in the older one of vLLM and SGLang,
which has `structures` and `triggers`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.schemas import SchemaRules


def tag_of(tag: Any, param: str, rules: SchemaRules) -> Any:
    """A tag in xgrammar's form; what is no tag as it is. param: its field. Raises InvalidParams."""
    described = _described(tag)
    if described is None or described.get("structures") is None:
        return tag
    triggers = described.get("triggers")
    structures = described["structures"]
    if not isinstance(triggers, list) or not triggers:
        raise InvalidParams(
            "structures need triggers: texts with which they begin", param=f"{param}.triggers"
        )
    if not isinstance(structures, list):
        raise InvalidParams("structures must be a list", param=f"{param}.structures")
    tags = [
        _tag(structure, f"{param}.structures[{index}]", rules)
        for index, structure in enumerate(structures)
    ]
    return {
        "type": "structural_tag",
        "format": {"type": "triggered_tags", "triggers": triggers, "tags": tags},
    }


def _described(tag: Any) -> Mapping[str, Any] | None:
    if isinstance(tag, str):
        try:
            tag = json.loads(tag)
        except (ValueError, RecursionError):  # which the guide will say
            return None
    return tag if isinstance(tag, Mapping) else None


def _tag(structure: Any, param: str, rules: SchemaRules) -> dict[str, Any]:
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
            "json_schema": {"type": "object"} if schema is None else rules.closed(schema),
        },
        "end": described["end"],
    }
