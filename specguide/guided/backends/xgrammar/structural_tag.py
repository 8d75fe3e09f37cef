"""Owns the schemas inside a structural tag for xgrammar: with bounded whitespace and open objects.

Each schema is given as a grammar. In another style than JSON, the library writes all but the
numbers, and its whitespace has no indentation. Inside structural tags xgrammar refuses properties
and items that a schema does not name, with no option to change that. So where JSON Schema allows
them, the schema is made to say so.
"""

from __future__ import annotations

import xgrammar as xgr

from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guided.adapters.schema_numbers import NamedNumbers
from specguide.guided.adapters.whitespace import just
from specguide.guided.backends.xgrammar.escapes import with_closed_escapes, with_plain_controls
from specguide.guided.backends.xgrammar.schema_ebnf import schema_ebnf, with_names
from specguide.guided.backends.xgrammar.surrogates import without_surrogates_in_strings
from specguide.guided.backends.xgrammar.xml_names import names_of, with_other_names
from specguide.guided.backends.xgrammar.xml_strings import XmlStrings, end_mark
from specguide.guided.schema.core.nodes import NO_STRINGS, CoreSchema
from specguide.guided.schema.core.walk import walk
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.subschemas import with_subschemas

_DEEP = ("cohere_xml", "minimax_m3_xml")
"""Styles in which nested values are not JSON either."""


def for_xgrammar(node: Json, limits: GuideConfig) -> Json:
    """A structural tag whose schemas bound whitespace as `limits` do, where they set no bound
    themselves.

    Raises UnsupportedGuide where the library cannot, and the library's errors for a schema.
    """
    if isinstance(node, list):
        return [for_xgrammar(item, limits) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in ("json_schema", "qwen_xml_parameter") and "json_schema" in node:
        return {"type": "grammar", "grammar": _schema_grammar(node, limits)}
    found = {name: for_xgrammar(value, limits) for name, value in node.items()}
    if node.get("type") == "regex" and "pattern" in node:
        found["pattern"] = with_plain_controls(node["pattern"])
    return found


def holds_grammar(node: Json) -> bool:
    """Whether a structural tag contains a grammar of the user."""
    if isinstance(node, list):
        return any(map(holds_grammar, node))
    if not isinstance(node, dict):
        return False
    return node.get("type") == "grammar" or any(map(holds_grammar, node.values()))


def _schema_grammar(node: dict[str, Json], limits: GuideConfig) -> str:
    """The grammar of a tag's part that holds a schema."""
    most = node.get("max_whitespace_cnt")
    is_json = node["type"] == "json_schema" and node.get("style", "json") == "json"
    if is_json and not node.get("excludes"):
        any_order = node.get("any_order", False)
        return schema_ebnf(node["json_schema"], just(limits, most), any_order=any_order)
    if most == 0:
        raise UnsupportedGuide(
            "xgrammar cannot compile max_whitespace_cnt 0 in this style of a structural tag; set "
            "it to 1"
        )
    return _other_style(node, most or max(1, limits.max_whitespace))


def _other_style(node: dict[str, Json], max_whitespace: int) -> str:
    """The grammar of a schema in another style than JSON, with exact numbers, and with strings that
    do not contain the marks that end values; or the grammar of a schema that excludes texts."""
    style = "qwen_xml" if node["type"] == "qwen_xml_parameter" else node.get("style", "json")
    mark = None if style == "json" else end_mark(style)
    excludes = node.get("excludes") or []
    is_deep = style in _DEEP
    left: list[CoreSchema] = []

    def named_strings(names: NamedNumbers, core: CoreSchema) -> CoreSchema:
        if mark is not None:
            core = XmlStrings(names, [mark, *excludes], is_deep).named(core)
        left[:] = [core]
        return core

    named = with_names(node["json_schema"], named_strings, are_bare=mark is not None)
    nodes = (node for core in left for node in walk([core.root], core.definitions))
    asks = any(node.kinds.strings != NO_STRINGS for node in nodes)
    if excludes and asks:
        raise UnsupportedGuide(
            "xgrammar cannot exclude texts from strings with minLength, maxLength, pattern or "
            "format: leave excludes out"
        )
    opened = {
        **node,
        "json_schema": _opened(named.json),
        "max_whitespace_cnt": max_whitespace,
    }
    if mark is not None and left and not (asks or is_deep):
        opened["excludes"] = [mark, *excludes]  # also from JSON strings within values
    tag = {"type": "structural_tag", "format": opened}
    printed = with_closed_escapes(str(xgr.Grammar.from_structural_tag(tag)))
    printed = without_surrogates_in_strings(printed)
    if not is_deep:
        printed = with_other_names(printed, [name for core in left for name in names_of(core)])
    return named.numbers.with_rules(printed)


def _opened(schema: Json) -> Json:
    """The schema, with JSON Schema's default for unnamed properties and items written out."""
    if not isinstance(schema, dict) or _mentions_unevaluated(schema):
        return schema
    opened = with_subschemas(schema, _opened)
    if schema.get("type") == "object" or "properties" in schema:
        opened.setdefault("additionalProperties", True)
    if "prefixItems" in schema:
        opened.setdefault("items", True)
    return opened


def _mentions_unevaluated(value: Json) -> bool:
    if isinstance(value, dict):
        return any(
            name.startswith("unevaluated") or _mentions_unevaluated(item)
            for name, item in value.items()
        )
    return isinstance(value, list) and any(map(_mentions_unevaluated, value))
