"""Owns the form of a guide whose objects may have their keys in any order."""

from __future__ import annotations

from dataclasses import replace

from specguide.guided.backend import Rewritten
from specguide.guided.known.keys import KnownKeys
from specguide.guided.schema.core.nodes import ANY_OBJECT, CoreSchema
from specguide.guided.schema.places.key_places import key_places


def in_any_order(rewritten: Rewritten) -> Rewritten:
    """The guide with keys in any order, and the facts for the guard of keys. Unchanged where there
    are no objects.

    Raises UnsupportedGuide where objects cannot be told apart, NoInstance where no value fits.
    """
    schema = ANY_OBJECT if rewritten.kind == "json_object" else rewritten.value
    if not isinstance(schema, CoreSchema):
        return rewritten
    freed, places = key_places(schema)
    value = freed if rewritten.kind == "json_schema" else rewritten.value
    return replace(rewritten, value=value, keys=KnownKeys(places))
