"""Owns the shapes of the values of JSON Schema's keywords.

Source: the meta-schemas of drafts 4, 6, 7, 2019-09 and 2020-12, combined.
"""

from __future__ import annotations

from collections.abc import Callable

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.schema.json_values import TYPES, Json, is_number, is_object

Shape = Callable[[Json], bool]

_TYPES = frozenset((*TYPES, "integer"))
MAX_COUNT = 2**53
"""Largest count: beyond it, doubles cannot represent every integer."""


def check_shapes(schema: Json, path: str) -> None:
    """Raises InvalidGuide, with the JSON pointer, if `schema` or the value of one of its keywords
    has the wrong shape."""
    if isinstance(schema, bool):
        return
    if not is_object(schema):
        raise InvalidGuide(
            f"what is at {path or 'the root'} must be a JSON Schema, that is, an object or a "
            f"boolean, found {_shown(schema)}",
            param="json_schema",
        )
    num_steps = len(schema)
    for keyword, value in schema.items():
        if isinstance(value, (list, dict)):
            num_steps += len(value) // 8
        shape = SHAPES.get(keyword)
        if shape is not None and not shape[0](value):
            raise InvalidGuide(
                f"{keyword} at {path}/{keyword} must be {shape[1]}, found {_shown(value)}",
                param="json_schema",
            )
    spend(num_steps)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_count(value: Json) -> bool:
    return is_number(value) and 0 <= value <= MAX_COUNT and value == int(value)


def _is_schema(value: Json) -> bool:
    return isinstance(value, bool) or is_object(value)


def _is_map(value: Json) -> bool:
    return is_object(value)


def _is_schemas(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_type(value: Json) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    return _is_names(value) and bool(value) and _TYPES.issuperset(value)


_SCHEMA = (_is_schema, "a schema")
_COUNT = (_is_count, "an integer from 0 to 2^53")
_TEXT = (lambda value: isinstance(value, str), "a string")
_SCHEMAS = (_is_schemas, "a non-empty list of schemas")
_SCHEMA_MAP = (
    lambda value: _is_map(value) and all(map(_is_schema, value.values())),
    "an object of schemas",
)
_NAMES = (_is_names, "a list of strings")

SHAPES: dict[str, tuple[Shape, str]] = {
    "type": (_is_type, f"one or several of {', '.join((*TYPES, 'integer'))}"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    **dict.fromkeys(("minimum", "maximum"), (is_number, "a number")),
    **dict.fromkeys(
        ("exclusiveMinimum", "exclusiveMaximum"),
        (
            lambda value: isinstance(value, bool) or is_number(value),
            "a number (in draft 4, a boolean)",
        ),
    ),
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number > 0"),
    **dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        _COUNT,
    ),
    **dict.fromkeys(
        (
            "pattern",
            "format",
            "$ref",
            "$id",
            "$anchor",
            "$dynamicRef",
            "$dynamicAnchor",
            "$recursiveRef",
        ),
        _TEXT,
    ),
    **dict.fromkeys(
        (
            "not",
            "if",
            "then",
            "else",
            "propertyNames",
            "contains",
            "additionalProperties",
            "additionalItems",
            "unevaluatedItems",
            "unevaluatedProperties",
        ),
        _SCHEMA,
    ),
    "items": (
        lambda value: (
            _is_schema(value) or (isinstance(value, list) and all(map(_is_schema, value)))
        ),
        "a schema or a list of schemas",
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _SCHEMAS),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _SCHEMA_MAP),
    **dict.fromkeys(("$defs", "definitions"), (_is_map, "an object of schemas")),
    "required": _NAMES,
    "dependentRequired": (
        lambda value: _is_map(value) and all(map(_is_names, value.values())),
        "an object of lists of strings",
    ),
    "dependencies": (
        lambda value: (
            _is_map(value) and all(_is_schema(item) or _is_names(item) for item in value.values())
        ),
        "an object of schemas or lists of strings",
    ),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
}
"""Keyword → (check of its value, the description for errors). Other keywords take any value."""
