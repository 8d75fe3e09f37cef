"""Values that a schema lists are judged by all that it asks; what is not listed keeps what the
schema allows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from lowered_schemas import INSTANCES, is_valid, schemas
from one_compiler import compiler_of

from specguide.bench.instances import BYTES, takes
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.document.document import Document
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.select import rewrites

compiler = compiler_of(BYTES)


@settings(max_examples=100)
@given(schema=schemas())
def test_values_are_judged_as_jsonschema_judges_them(schema: Any) -> None:
    instances = Instances(Document(schema))
    judge = jsonschema.Draft202012Validator(schema)
    for value in INSTANCES:
        assert instances.fits(schema, Document(schema).start, value) in (
            None,
            judge.is_valid(value),
        ), value


JUDGED = (
    ({"multipleOf": 0.01}, 561.29, True),
    ({"multipleOf": 0.1}, 0.25, False),
    ({"exclusiveMinimum": 0.1}, 0.1, False),
    ({"uniqueItems": True}, [1, 1.0], False),
    ({"uniqueItems": True}, [1, True, "1"], True),
    ({"format": "ipv4"}, "1.2.3.4", True),
    ({"format": "ipv4"}, "1.2.3", False),
    ({"format": "ipv4"}, 1, True),
    ({"format": "hostname"}, "xn--9n2bp8q", None),
    ({"not": {"format": "hostname"}}, "xn--9n2bp8q", None),
    ({"format": "email"}, "a" * 65 + "@b", False),
    ({"$dynamicRef": "#x"}, 1, None),
    ({"pattern": r"^\d$"}, "٣", None),
    ({"pattern": r"^\d$"}, "x", False),
    ({"pattern": r"^\[.*\]$"}, "[\r]", None),
    ({"pattern": r"^\[.*\]$"}, "a]", False),
    ({"unevaluatedItems": False}, [1], None),
    ({"contains": {"type": "null"}, "maxContains": 1}, [None, None], False),
    (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "minimum": 1,
            "exclusiveMinimum": True,
        },
        1,
        False,
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [True, {"type": "null"}],
            "additionalItems": False,
        },
        [1, None],
        True,
    ),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, 1, None),
)


@pytest.mark.parametrize(
    ("schema", "value", "expected"), JUDGED, ids=lambda value: json.dumps(value)[:40]
)
def test_what_jsonschema_does_not_tell_exactly(
    schema: Any, value: Any, expected: bool | None
) -> None:
    document = Document(schema)
    assert Instances(document).fits(schema, document.start, value) is expected


SHORT_OR_LONG = {"oneOf": [{"minLength": 2}, {"maxLength": 4}]}
SERVED = (
    # (schema, texts it takes, texts it refuses)
    ({"enum": ["foo", "a"], "not": SHORT_OR_LONG}, ['"foo"'], ['"a"']),
    ({"allOf": [{"enum": ["foo", "barbaz"]}, {"not": SHORT_OR_LONG}]}, ['"foo"'], ['"barbaz"']),
    (
        {"$ref": "#/$defs/e", "not": SHORT_OR_LONG, "$defs": {"e": {"enum": ["foo", "barbaz"]}}},
        ['"foo"'],
        ['"barbaz"'],
    ),
    ({"type": "string", "not": SHORT_OR_LONG}, ['"foo"', '"ab"'], ['"a"', '"barbaz"']),
    ({"enum": [1.1, 2], "not": {"type": "integer"}}, ["1.1"], ["2"]),
    ({"enum": [3, 4], "not": {"multipleOf": 2}}, ["3"], ["4"]),
    ({"enum": [-0.0]}, ["0", "0.0", "-0", "-0.0"], ["1", "-1"]),
    ({"const": {"a": [-0.0]}}, ['{"a":[0]}', '{"a":[-0.0]}'], ['{"a":[]}']),
    ({"enum": [[1, 1], [1, 2]], "uniqueItems": True}, ["[1,2]"], ["[1,1]"]),
    ({"enum": [["a", 1], ["a"]], "contains": {"type": "integer"}}, ['["a",1]'], ['["a"]']),
    ({"oneOf": [{"type": "integer"}, {"const": 1.5}]}, ["1.5", "1"], ["2.5"]),
    (
        {"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}, "minProperties": 3},
        ['{"a":1,"b":2,"c":3}'],
        ['{"a":1,"b":2}', '{"a":1}'],
    ),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 2},
        ['{"a":1,"b":2}', '{"a":1,"x":2}'],
        ['{"a":1}', "{}"],
    ),
)


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), SERVED, ids=lambda value: json.dumps(value)[:60]
)
def test_a_schema_that_allows_values_is_served(compiler, schema, valid, invalid):
    grammar = compiler.compile(Guide(json_schema=schema))
    assert [text for text in valid + invalid if is_valid(schema, json.loads(text))] == valid
    assert [text for text in valid + invalid if takes(grammar, text)] == valid


def test_properties_that_cannot_be_counted_in_order_are_told_by_keyword_or_freed() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "minProperties": 3}
    with pytest.raises(InvalidGuide, match="minProperties at /minProperties"):
        next(core_schemas(schema, LLGUIDANCE))
    freed = next(rewrites(Guide(json_schema=schema), "llguidance")).value
    assert isinstance(freed, CoreSchema) and freed.tracked is not None
