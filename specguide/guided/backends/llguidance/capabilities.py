"""Owns the table of what llguidance enforces of JSON Schema.

The levels were measured with the library as it is used here (1.9.1 without \\u escapes); a test
case shows each.
"""

from __future__ import annotations

from specguide.guided.regex.charset import JSON_TEXT
from specguide.guided.regex.tree import UnsupportedRegex
from specguide.guided.schema.core.capabilities import (
    Capabilities,
    Level,
    Support,
    unnamed_may_repeat,
)
from specguide.guided.schema.core.nodes import Node
from specguide.guided.schema.core.patterns import has_few_names
from specguide.guided.schema.json_values import exact

_MAX_REMAINDERS = 100_000


def _may_be_used_up(node: Node) -> str | None:
    """It allows a comma behind the last possible property, where the patterns have no names
    left."""
    objects = node.kinds.objects
    try:
        if objects.additional is not False or not all(map(has_few_names, objects.patterns)):
            return None
    except UnsupportedRegex:
        return None
    return "after its last name, llguidance would allow a comma; list its names in properties"


def _has_many_remainders(node: Node) -> str | None:
    """Its automaton may have a state for each remainder; 100,000 of them take a second and 100
    MB."""
    scaled = exact(node.kinds.numbers.multiple_of or 1)
    while scaled.denominator > 1:
        scaled *= 10
    if scaled <= _MAX_REMAINDERS or (scaled <= 10**18 and str(scaled).strip("0") == "1"):
        return None
    return (
        f"it leaves more than {_MAX_REMAINDERS} remainders, each of which takes a state of the "
        "grammar; give a smaller step"
    )


_ENFORCED = (
    *("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "items"),
    *("properties", "additionalProperties", "required", "allOf", "anyOf"),
)
_PARTIAL = (
    *("enum", "const", "pattern", "format", "maxProperties", "prefixItems", "additionalItems"),
    *("oneOf", "$ref"),
)
_REFUSED = (
    *("propertyNames", "uniqueItems", "contains", "minContains", "maxContains"),
    *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas", "dependencies", "$dynamicRef"),
)

LLGUIDANCE = Capabilities(
    keywords={
        **dict.fromkeys(_ENFORCED, Support(Level.ENFORCED)),
        **dict.fromkeys(_PARTIAL, Support(Level.PARTIAL)),
        **dict.fromkeys(_REFUSED, Support(Level.REFUSED)),
        "multipleOf": Support(Level.PARTIAL, _has_many_remainders),
        "patternProperties": Support(Level.PARTIAL, _may_be_used_up),
        "minProperties": Support(Level.PARTIAL, unnamed_may_repeat),
    },
    characters=JSON_TEXT,
    has_open_objects=True,
    counts_characters=True,
    merges_fractions=True,
    frees_keys=True,
)
