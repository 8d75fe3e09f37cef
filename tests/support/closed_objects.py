"""Owns schemas of objects that have the properties named and no others."""

from __future__ import annotations

from typing import Any


def closed(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """more: other keywords"""
    asked = {"properties": properties, "required": [*required], "additionalProperties": False}
    return {"type": "object", **asked, **more}
