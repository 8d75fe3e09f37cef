"""Owns what is made of a guide whose objects may have their keys in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specguide.guided.backend import Rewritten
from specguide.guided.schema.key_places import key_places
from specguide.guided.schema.nodes import ANY_OBJECT, CoreSchema
from specguide.guided.schema.spread import spread


def in_any_order(rewritten: Rewritten) -> tuple[Rewritten, dict[str, Any] | None]:
    """A guide as a backend is to be told it, and what the guard must know: see
    `keys.KeyGuard.guard`; None for a guide without objects.

    Raises UnsupportedGuide where objects cannot be told apart.
    """
    if rewritten.kind == "json_object":
        return rewritten, _known(ANY_OBJECT)[1]
    if not isinstance(rewritten.value, CoreSchema):
        return rewritten, None
    schema, known = _known(rewritten.value)
    return replace(rewritten, value=schema), known


def _known(schema: CoreSchema) -> tuple[CoreSchema, dict[str, Any]]:
    """Of a schema that the whole text fits."""
    freed, places = key_places(spread(schema))
    return freed, {"places": places, "starts": []}
