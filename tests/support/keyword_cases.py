"""Owns the evidence for the keyword table: small schemas per keyword, with texts that are instances
or are not.

A case shows what a library does with a keyword in one form: it enforces it (refuses all invalid
texts), ignores it (takes an invalid one) or refuses to compile it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

ENFORCED, IGNORED, REFUSED = "enforced", "ignored", "refused"


@dataclass(frozen=True)
class Case:
    """One form of one keyword.

    valid, invalid:       JSON texts
    llguidance, xgrammar: what the libraries do with it
    xgrammar_029:         what xgrammar does from 0.2.9 on; None: as before
    """

    keyword: str
    schema: Any
    valid: Sequence[str]
    invalid: Sequence[str]
    llguidance: str = ENFORCED
    xgrammar: str = ENFORCED
    xgrammar_029: str | None = None

    def outcome(self, name: str) -> str:
        """What the installed library of this name does with it."""
        is_newer = name == "xgrammar" and _XGRAMMAR >= (0, 2, 9)
        return (self.xgrammar_029 if is_newer else None) or str(getattr(self, name))


_XGRAMMAR = tuple(map(int, version("xgrammar").split(".")[:3]))
_OBJECT = {"type": "object"}
_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}

CASES = (
    Case("type", {"type": "integer"}, ["3", "-7"], ["3.5", '"3"', "true"]),
    Case("type", {"type": ["string", "null"]}, ['"a"', "null"], ["1", "false"]),
    Case("enum", {"enum": ["a", "b", 3]}, ['"a"', "3"], ['"c"', "4", '"ab"']),
    Case("enum", {"enum": ["a", 1], "type": "string"}, ['"a"'], ["1"], xgrammar=IGNORED),
    Case("enum", {"enum": ["a\u0000b"]}, ['"a\\u0000b"'], ['"ab"'], llguidance=REFUSED),
    Case(
        "enum",
        {"enum": [2.6]},
        ["2.6"],
        ["2.6000000000000001"],
        xgrammar=IGNORED,
        xgrammar_029=ENFORCED,
    ),
    Case(
        "const",
        {"const": {"a": [1, None]}},
        ['{"a":[1,null]}'],
        ['{"a":[1]}', '{"a":[1,null],"b":2}'],
    ),
    Case("const", {"const": 9007199254740993}, [], ["9007199254740992"], llguidance=REFUSED),
    Case(
        "const", {"const": "ab", "maxLength": 1}, [], ['"ab"'], llguidance=REFUSED, xgrammar=IGNORED
    ),
    Case("minimum", {"type": "integer", "minimum": 10}, ["10", "245"], ["9", "-10", "0"]),
    Case(
        "minimum",
        {"type": "number", "minimum": 1.5},
        ["1.5", "2", "10.25"],
        ["1.4", "1", "-3", "0.5"],
    ),
    Case("minimum", {"minimum": 10}, ["10", '"a"'], ["9"], xgrammar=IGNORED),
    Case("maximum", {"type": "integer", "maximum": -5}, ["-5", "-100"], ["-4", "0", "7"]),
    Case(
        "maximum", {"type": "number", "maximum": 0.25}, ["0.25", "-3", "0.1"], ["0.26", "1", "0.3"]
    ),
    Case("maximum", {"maximum": 10}, ["10", '"a"'], ["11"], xgrammar=IGNORED),
    Case(
        "exclusiveMinimum",
        {"type": "number", "exclusiveMinimum": 0},
        ["0.5", "3"],
        ["0", "-1", "0.0"],
    ),
    Case(
        "exclusiveMinimum",
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
        ["4"],
        ["3"],
        xgrammar=REFUSED,
    ),
    Case(
        "exclusiveMaximum",
        {"type": "number", "exclusiveMaximum": 1},
        ["0.5", "-3"],
        ["1", "1.0", "2"],
    ),
    Case(
        "exclusiveMaximum",
        {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
        ["2"],
        ["3"],
        xgrammar=REFUSED,
    ),
    Case(
        "multipleOf",
        {"type": "integer", "multipleOf": 7},
        ["0", "7", "-14", "35"],
        ["1", "8", "-13"],
    ),
    Case(
        "multipleOf",
        {"type": "integer", "multipleOf": 4294967296},
        ["0"],
        ["1"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "multipleOf",
        {"type": "number", "multipleOf": 0.5},
        ["1.5", "2"],
        ["1.25", "0.3"],
        xgrammar=IGNORED,
    ),
    Case(
        "multipleOf",
        {"type": "integer", "multipleOf": 7, "minimum": 1},
        ["7"],
        ["8"],
        xgrammar=IGNORED,
    ),
    Case(
        "minLength",
        {"type": "string", "minLength": 2},
        ['"ab"', '"éé"', '"abc"'],
        ['"a"', '""', '"é"'],
    ),
    Case("minLength", {"minLength": 2}, ['"ab"', "1"], ['"a"'], xgrammar=IGNORED),
    Case(
        "minLength",
        {"type": "string", "minLength": 2, "pattern": "^a*$"},
        ['"aa"'],
        ['"a"', '""'],
        xgrammar=IGNORED,
    ),
    Case("maxLength", {"type": "string", "maxLength": 2}, ['""', '"ab"', '"éé"'], ['"abc"']),
    Case(
        "maxLength", {"type": "string", "maxLength": 2}, ['"ab"'], ['"a\u0001"'], xgrammar=IGNORED
    ),
    Case(
        "pattern", {"type": "string", "pattern": "^[a-c]+$"}, ['"abc"'], ['"abd"', '""', '"xabc"']
    ),
    Case("pattern", {"type": "string", "pattern": "b"}, ['"b"'], ['"a"', '""']),
    Case(
        "pattern",
        {"type": "string", "pattern": "^[^\\\\]$"},
        ['"a"'],
        ['"\\\\"'],
        llguidance=IGNORED,
    ),
    Case("pattern", {"type": "string", "pattern": "^.$"}, ['"a"'], ['"""']),
    Case("pattern", {"type": "string", "pattern": "^a|b$"}, ['"a"', '"b"'], ['"c"']),
    Case(
        "pattern",
        {"type": "string", "pattern": "^(?!a).$"},
        ['"b"'],
        ['"a"'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "pattern",
        {"type": "string", "pattern": "^(a)\\1$"},
        ['"aa"'],
        ['"ab"'],
        llguidance=REFUSED,
        xgrammar=REFUSED,
    ),
    Case(
        "pattern",
        {"type": "string", "pattern": "^a\\b$"},
        ['"a"'],
        ['"b"'],
        llguidance=REFUSED,
        xgrammar=REFUSED,
    ),
    Case(
        "pattern",
        {"type": "string", "pattern": "^(a*(b|b))?[ab]$"},
        ['"aba"', '"a"'],
        ['"aa"'],
        xgrammar=IGNORED,
    ),
    Case("pattern", {"pattern": "^a$"}, ['"a"', "1"], ['"b"'], xgrammar=IGNORED),
    Case("format", {"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2024-13-01"', '"x"']),
    Case(
        "format",
        {"type": "string", "format": "date"},
        ['"2023-02-28"'],
        ['"2023-02-29"'],
        llguidance=IGNORED,
        xgrammar=IGNORED,
    ),
    Case(
        "format", {"type": "string", "format": "ipv4"}, ['"10.0.0.255"'], ['"10.0.0.256"', '"10.0"']
    ),
    Case(
        "format",
        {"type": "string", "format": "json-pointer"},
        ['"/a"'],
        ['"a"'],
        llguidance=REFUSED,
    ),
    Case("format", {"format": "date"}, ['"2024-02-29"', "1"], ['"x"'], xgrammar=IGNORED),
    Case(
        "properties",
        {"type": "object", "properties": {"a": _INTEGER}},
        ['{"a":1}', "{}"],
        ['{"a":"x"}'],
    ),
    Case(
        "properties",
        {"type": "object", "properties": {"a": _INTEGER}},
        ['{"a":1}'],
        ['{"a":1,"a":"x"}', '{"a":1,"\\u0061":"x"}'],
    ),
    Case(
        "properties",
        {"type": "object", "properties": {"é": _INTEGER}, "additionalProperties": True},
        ['{"é":1}'],
        ['{"é":1,"é":"x"}'],
        xgrammar=IGNORED,
    ),
    Case(
        "properties",
        {"type": "object", "properties": {'a"': _INTEGER}, "additionalProperties": True},
        ['{"a\\"":1}'],
        ['{"a\\"":1,"a"no JSON":1}'],
        xgrammar=IGNORED,
    ),
    Case(
        "properties",
        {"type": "object", "properties": {"a": False}},
        ["{}"],
        ['{"a":1}'],
        xgrammar=REFUSED,
    ),
    Case("properties", {"properties": {"a": _INTEGER}}, ['{"a":1}'], ['{"a":"x"}']),
    Case(
        "patternProperties",
        {"type": "object", "patternProperties": {"^a": _INTEGER}},
        ['{"ab":1}', '{"b":"x"}'],
        ['{"ab":"x"}'],
    ),
    Case(
        "patternProperties",
        {"type": "object", "patternProperties": {"^a": _INTEGER}, "additionalProperties": False},
        ['{"ab":1}', "{}"],
        ['{"ab":"x"}', '{"b":1}'],
    ),
    Case(
        "patternProperties",
        {
            "type": "object",
            "properties": {"ab": {"maximum": 5}},
            "patternProperties": {"^a": _INTEGER},
            "additionalProperties": False,
        },
        ['{"ab":1}'],
        ['{"ab":"x"}', '{"ab":6}'],
        xgrammar=IGNORED,
    ),
    Case(
        "patternProperties",
        {"type": "object", "patternProperties": {"a": _INTEGER, "b": {"minimum": 5}}},
        ['{"ab":6}'],
        ['{"ab":"x"}', '{"ab":1}'],
        llguidance=REFUSED,
    ),
    Case(
        "additionalProperties",
        {"type": "object", "properties": {"a": _INTEGER}, "additionalProperties": False},
        ['{"a":1}', "{}"],
        ['{"b":1}', '{"a":1,"b":1}'],
    ),
    Case(
        "additionalProperties",
        {"type": "object", "additionalProperties": _INTEGER},
        ['{"b":1}'],
        ['{"b":"x"}'],
    ),
    Case(
        "additionalProperties",
        {"type": "object", "properties": {"a": _STRING}, "additionalProperties": _INTEGER},
        ['{"a":"x","b":1}'],
        ['{"a":1}', '{"b":"x"}'],
    ),
    Case(
        "additionalProperties",
        {"type": "object", "properties": {"a": _STRING}, "additionalProperties": _INTEGER},
        ['{"a":"x","b":1}'],
        ['{"\\u0061":1}'],
    ),
    Case(
        "additionalProperties",
        {"type": "object", "properties": {"é": _STRING}, "additionalProperties": _INTEGER},
        ['{"é":"x","b":1}'],
        ['{"é":1}'],
        xgrammar=IGNORED,
    ),
    Case("additionalProperties", {"additionalProperties": False}, ["{}"], ['{"b":1}']),
    Case(
        "required",
        {"type": "object", "properties": {"a": _INTEGER, "b": _INTEGER}, "required": ["b"]},
        ['{"b":1}', '{"a":1,"b":2}'],
        ['{"a":1}', "{}"],
    ),
    Case(
        "required",
        {"type": "object", "required": ["b"]},
        ['{"b":1}'],
        ['{"a":1}', "{}"],
        xgrammar=IGNORED,
    ),
    Case("required", {"required": ["b"]}, ['{"b":1}', "1"], ["{}"], xgrammar=IGNORED),
    Case("minProperties", {"type": "object", "minProperties": 1}, ['{"a":1}'], ["{}"]),
    Case(
        "minProperties",
        {"type": "object", "minProperties": 2},
        ['{"a":1,"b":2}'],
        ['{"a":1}', '{"a":1,"a":2}'],
        llguidance=IGNORED,
        xgrammar=IGNORED,
    ),
    Case(
        "minProperties",
        {
            "type": "object",
            "properties": {"a": _INTEGER, "b": _INTEGER},
            "minProperties": 1,
            "additionalProperties": False,
        },
        ['{"b":1}', '{"a":1,"b":1}'],
        ["{}"],
    ),
    Case(
        "minProperties",
        {
            "type": "object",
            "properties": {"a": _INTEGER, "b": _INTEGER, "c": _INTEGER},
            "minProperties": 2,
            "additionalProperties": False,
        },
        ['{"a":1,"c":1}'],
        ["{}", '{"b":1}'],
        llguidance=REFUSED,
    ),
    Case(
        "maxProperties",
        {"type": "object", "maxProperties": 1},
        ['{"a":1}', "{}"],
        ['{"a":1,"b":2}'],
    ),
    Case(
        "maxProperties",
        {
            "type": "object",
            "properties": {"a": _INTEGER, "b": _INTEGER, "c": _INTEGER},
            "maxProperties": 2,
            "additionalProperties": False,
        },
        ['{"a":1,"c":1}', "{}"],
        ['{"a":1,"b":1,"c":1}'],
        llguidance=REFUSED,
    ),
    Case(
        "maxProperties",
        {"maxProperties": 1},
        ['{"a":1}', "{}"],
        ['{"a":1,"b":2}'],
        xgrammar=IGNORED,
    ),
    Case(
        "propertyNames",
        {"type": "object", "propertyNames": {"pattern": "^a"}},
        ['{"a":1}'],
        ['{"b":1}'],
        llguidance=REFUSED,
    ),
    Case(
        "propertyNames",
        {"type": "object", "propertyNames": {"enum": ["a"]}, "properties": {"b": True}},
        ['{"a":1}'],
        ['{"b":1}'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case("items", {"type": "array", "items": _INTEGER}, ["[]", "[1,2]"], ['["a"]', '[1,"a"]']),
    Case("items", {"items": _INTEGER}, ["[1,2]"], ['["a"]']),
    Case(
        "items",
        {**_DRAFT_7, "type": "array", "items": [_INTEGER, _STRING]},
        ['[1,"a"]'],
        ['["a",1]', "[1,1]"],
        xgrammar=REFUSED,
    ),
    Case(
        "prefixItems",
        {"type": "array", "prefixItems": [_INTEGER, _STRING]},
        ['[1,"a"]', '[1,"a",null]'],
        ['["a",1]', "[1,1]"],
    ),
    Case(
        "prefixItems",
        {"type": "array", "prefixItems": [_INTEGER], "additionalItems": False},
        ["[1]"],
        ['["a"]'],
        llguidance=IGNORED,
    ),
    Case(
        "additionalItems",
        {**_DRAFT_7, "type": "array", "items": [_INTEGER], "additionalItems": False},
        ["[1]"],
        ["[1,2]"],
        xgrammar=REFUSED,
    ),
    Case(
        "additionalItems",
        {**_DRAFT_7, "items": [_INTEGER], "anyOf": [{"type": "array"}], "additionalItems": False},
        ["[1]"],
        ["[1,2]"],
        llguidance=IGNORED,
        xgrammar=IGNORED,
    ),
    Case("minItems", {"type": "array", "minItems": 2, "items": _INTEGER}, ["[1,2]"], ["[1]", "[]"]),
    Case("minItems", {"minItems": 2}, ["[1,2]", "1"], ["[1]"], xgrammar=IGNORED),
    Case(
        "maxItems",
        {"type": "array", "maxItems": 2, "items": _INTEGER},
        ["[1,2]", "[]"],
        ["[1,2,3]"],
    ),
    Case("maxItems", {"maxItems": 2}, ["[1,2]", "1"], ["[1,2,3]"], xgrammar=IGNORED),
    Case(
        "uniqueItems",
        {"type": "array", "uniqueItems": True},
        ["[1,2]"],
        ["[1,1]"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "contains",
        {"type": "array", "contains": _INTEGER},
        ['[1,"a"]'],
        ['["a"]', "[]"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "minContains",
        {"type": "array", "contains": _INTEGER, "minContains": 2},
        ["[1,2]"],
        ["[1]", '["a","b"]'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "maxContains",
        {"type": "array", "contains": _INTEGER, "maxContains": 1},
        ["[1]"],
        ["[1,2]"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "unevaluatedItems",
        {"type": "array", "prefixItems": [_INTEGER], "unevaluatedItems": False},
        ["[1]"],
        ["[1,2]"],
        llguidance=REFUSED,
    ),
    Case(
        "unevaluatedItems",
        {"type": "array", "allOf": [{"prefixItems": [_INTEGER]}], "unevaluatedItems": False},
        ["[1]"],
        ["[1,2]"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "unevaluatedProperties",
        {"type": "object", "properties": {"a": _INTEGER}, "unevaluatedProperties": False},
        ['{"a":1}'],
        ['{"a":1,"b":1}'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "unevaluatedProperties",
        {
            "type": "object",
            "allOf": [{"properties": {"a": _INTEGER}}],
            "unevaluatedProperties": False,
        },
        ['{"a":1}'],
        ['{"a":1,"b":1}'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "allOf",
        {"allOf": [_INTEGER, {"type": "integer", "minimum": 3}]},
        ["3"],
        ["2", '"a"'],
        xgrammar=IGNORED,
    ),
    Case("allOf", {"allOf": [_INTEGER]}, ["3"], ['"a"']),
    Case("anyOf", {"anyOf": [_INTEGER, _STRING]}, ["3", '"a"'], ["null", "1.5"]),
    Case(
        "anyOf",
        {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]},
        ["5", "1"],
        ["3", '"a"'],
        xgrammar=IGNORED,
    ),
    Case("oneOf", {"oneOf": [_INTEGER, _STRING]}, ["3", '"a"'], ["null"]),
    Case(
        "oneOf",
        {"oneOf": [{"type": "integer", "minimum": 2}, {"type": "integer", "maximum": 4}]},
        ["5", "1"],
        ["3"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "oneOf",
        {
            "type": "object",
            "properties": {"k": _STRING},
            "oneOf": [
                {"properties": {"k": {"const": "a"}}, "required": ["k"]},
                {"properties": {"k": {"const": "b"}}, "required": ["k"]},
            ],
        },
        ['{"k":"a"}'],
        ['{"k":"c"}', "{}"],
    ),
    Case(
        "not",
        {"type": "integer", "not": {"minimum": 3}},
        ["2"],
        ["3"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case("not", {"not": {}}, [], ["1"], llguidance=REFUSED, xgrammar=IGNORED),
    Case(
        "if",
        {"type": "integer", "if": {"minimum": 5}, "then": {"minimum": 7}, "else": {"maximum": 2}},
        ["7", "2"],
        ["6", "3"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "then",
        {"type": "integer", "if": {"minimum": 5}, "then": {"minimum": 7}},
        ["7", "4"],
        ["6"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "else",
        {"type": "integer", "if": {"minimum": 5}, "else": {"maximum": 2}},
        ["7", "2"],
        ["3"],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "dependentRequired",
        {"type": "object", "properties": {"a": True, "b": True}, "dependentRequired": {"a": ["b"]}},
        ['{"a":1,"b":1}', '{"b":1}'],
        ['{"a":1}'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "dependentSchemas",
        {
            "type": "object",
            "properties": {"a": True, "b": True},
            "dependentSchemas": {"a": {"required": ["b"]}},
        },
        ['{"a":1,"b":1}'],
        ['{"a":1}'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "dependencies",
        {
            **_DRAFT_7,
            "type": "object",
            "properties": {"a": True, "b": True},
            "dependencies": {"a": ["b"]},
        },
        ['{"a":1,"b":1}'],
        ['{"a":1}'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case("$ref", {"$ref": "#/$defs/x", "$defs": {"x": _INTEGER}}, ["1"], ['"a"']),
    Case(
        "$ref",
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
        ['{"a":{}}', "{}"],
        ['{"a":1}', '{"b":{}}'],
    ),
    Case(
        "$ref",
        {"$ref": "#/$defs/x", "minimum": 3, "$defs": {"x": _INTEGER}},
        ["3"],
        ["2"],
        xgrammar=IGNORED,
    ),
    Case(
        "$ref",
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": _INTEGER}},
        ["1"],
        ['"a"'],
        xgrammar=REFUSED,
        xgrammar_029=ENFORCED,
    ),
    Case(
        "$ref",
        {"$ref": "#x", "$defs": {"x": {"$anchor": "x", "type": "integer"}}},
        ["1"],
        ['"a"'],
        xgrammar=IGNORED,
    ),
    Case(
        "$ref",
        {
            "$ref": "item",
            "$id": "http://example.com/root",
            "$defs": {"x": {"$id": "item", "type": "integer"}},
        },
        ["1"],
        ['"a"'],
        xgrammar=IGNORED,
    ),
    Case(
        "$ref",
        {"$ref": "http://example.com/elsewhere"},
        [],
        ['"a"'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
    Case(
        "$dynamicRef",
        {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", "type": "integer"}}},
        ["1"],
        ['"a"'],
        llguidance=REFUSED,
        xgrammar=IGNORED,
    ),
)
