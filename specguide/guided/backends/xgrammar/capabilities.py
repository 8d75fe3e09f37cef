"""Owns the table of what xgrammar enforces of JSON Schema.

The levels were measured with the library as it is used here (0.2.8 and 0.2.9, without their strict
mode); a test case shows each.
"""

from __future__ import annotations

from specguide.guided.regex.charset import JSON_UNESCAPED
from specguide.guided.regex.parse import parse
from specguide.guided.regex.writer import is_flat
from specguide.guided.schema.core.capabilities import (
    Capabilities,
    Condition,
    Level,
    Support,
    unnamed_may_repeat,
)
from specguide.guided.schema.core.keywords import keywords
from specguide.guided.schema.core.nodes import Node
from specguide.guided.schema.json_values import needs_no_escape

_MAX_MULTIPLE = 1024


def _has_siblings(keyword: str) -> Condition:
    """It enforces one of these keywords and ignores the keywords beside it."""

    def unless(node: Node) -> str | None:
        others = sorted(keywords(node).keys() - {keyword})
        return f"xgrammar would ignore {others[0]} beside it; leave out either" if others else None

    return unless


def _needs_type(node: Node) -> str | None:
    """It enforces a type's keywords only where that type is named."""
    return (
        None if node.kinds.types else "xgrammar would ignore it without a type beside it; add one"
    )


def _needs_object_type(node: Node) -> str | None:
    return None if node.kinds.objects.properties else _needs_type(node)


def _additional_apart(node: Node) -> str | None:
    """It tells unnamed properties from named ones, but not from those that a pattern matches."""
    objects = node.kinds.objects
    if objects.additional is not False and objects.patterns:
        return "xgrammar would allow the names of patterns too; set additionalProperties to false"
    return _plain_names(node) or _needs_object_type(node)


def _plain_names(node: Node) -> str | None:
    """It tells unnamed properties from named ones byte by byte, so only where names need no
    escapes."""
    objects = node.kinds.objects
    if objects.additional is False:
        return None
    other = next((name for name in objects.properties if not needs_no_escape(name)), None)
    if other is None:
        return None
    return f"xgrammar would allow {other!r} with it, too; set additionalProperties to false"


_NEVER = "xgrammar would ignore it, or allow what is no instance"
_NOT_FLAT = "xgrammar misreads its repetition inside a repetition or an alternative; write it flat"


def _flat_pattern(node: Node) -> str | None:
    """It misreads patterns with a repetition inside another repetition or inside an alternative."""
    pattern = node.kinds.strings.pattern
    if pattern is not None and not is_flat(parse(pattern)):
        return _NOT_FLAT
    return _needs_type(node)


def _patterns_alone(node: Node) -> str | None:
    objects = node.kinds.objects
    if not all(is_flat(parse(pattern)) for pattern in objects.patterns):
        return _NOT_FLAT
    if objects.properties or objects.required or len(objects.patterns) > 1:
        return "xgrammar enforces it only as a single pattern, with no named properties beside it"
    if objects.additional is not False:
        return (
            "xgrammar would allow names that it does not match; set additionalProperties to false"
        )
    return _needs_type(node)


def _named(node: Node) -> str | None:
    objects = node.kinds.objects
    missing = [name for name in objects.required if name not in objects.properties]
    if missing:
        return f"the property {missing[0]!r} is not among properties; add it there"
    return _needs_object_type(node)


def _small_multiple(node: Node) -> str | None:
    numbers = node.kinds.numbers
    step = node.kinds.numbers.multiple_of
    is_whole = node.kinds.types == ("integer",) and isinstance(step, int)
    if not is_whole or numbers.is_bounded or (step or 0) > _MAX_MULTIPLE:
        return (
            f"xgrammar enforces it only for type integer, up to {_MAX_MULTIPLE} and without bounds"
        )
    return None


def _counted(node: Node) -> str | None:
    return _needs_type(node) or unnamed_may_repeat(node)


def _in_some_forms(unless: Condition | None = None) -> Support:
    return Support(Level.PARTIAL, unless)


_PARTIAL = (
    *("const", "format", "propertyNames", "items", "additionalItems"),
    *("unevaluatedItems", "oneOf"),
)
_IGNORED = (
    *("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedProperties"),
    *("not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas", "dependencies", "$dynamicRef"),
)
_WITH_TYPE = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
)

XGRAMMAR = Capabilities(
    keywords={
        **dict.fromkeys(("type", "prefixItems"), Support(Level.ENFORCED)),
        **dict.fromkeys(_PARTIAL, _in_some_forms()),
        **dict.fromkeys(_IGNORED, Support(Level.IGNORED)),
        **dict.fromkeys(_WITH_TYPE, _in_some_forms(_needs_type)),
        **dict.fromkeys(("minLength", "maxLength", "allOf"), _in_some_forms(lambda _: _NEVER)),
        **dict.fromkeys(("minProperties", "maxProperties"), _in_some_forms(_counted)),
        "enum": _in_some_forms(_has_siblings("enum")),
        "anyOf": _in_some_forms(_has_siblings("anyOf")),
        "$ref": _in_some_forms(_has_siblings("$ref")),
        "multipleOf": _in_some_forms(_small_multiple),
        "pattern": _in_some_forms(_flat_pattern),
        "patternProperties": _in_some_forms(_patterns_alone),
        "additionalProperties": _in_some_forms(_additional_apart),
        "required": _in_some_forms(_named),
        "properties": _in_some_forms(_plain_names),
    },
    characters=JSON_UNESCAPED,
    has_open_objects=False,
    counts_characters=False,
    merges_fractions=False,
)
