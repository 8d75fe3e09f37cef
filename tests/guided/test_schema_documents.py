"""Schemas may refer to documents that are given, and to no others."""

from __future__ import annotations

import json

import pytest
from one_compiler import compiler_of

from specguide.bench.instances import BYTES, takes
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, InvalidParams, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.schema.document import metaschemas

POINT = {"$id": "http://x.test/a/point.json", "properties": {"n": {"$ref": "n.json#/$defs/n"}}}
WHOLE = {"$defs": {"n": {"type": "integer"}}}
TREE = {
    "$dynamicAnchor": "node",
    "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
}
DOCUMENTS = {
    "http://x.test/old/point.json": POINT,
    "http://x.test/a/n.json": WHOLE,
    "http://x.test/tree": TREE,
    "http://x.test/seven": {"$schema": "http://json-schema.org/draft-07/schema#"},
}

compiler = compiler_of(BYTES, GuideConfig(schema_documents=DOCUMENTS))


def test_a_reference_to_a_given_document_is_followed(compiler):
    grammar = compiler.compile(Guide(json_schema={"$ref": "http://x.test/old/point.json"}))
    assert takes(grammar, '{"n": 1}') and not takes(grammar, '{"n": "1"}')


def test_a_schema_inside_a_tag_may_refer_to_one_as_well(compiler):
    part = {"type": "json_schema", "json_schema": {"$ref": "http://x.test/a/n.json#/$defs/n"}}
    grammar = compiler.compile(Guide(structural_tag={"type": "structural_tag", "format": part}))
    assert takes(grammar, "12") and not takes(grammar, '"1"')


def test_a_dynamic_anchor_of_the_root_holds_in_other_documents(compiler):
    strict = {
        "$id": "http://x.test/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
    }
    grammar = compiler.compile(Guide(json_schema=strict))
    assert takes(grammar, '{"children": [{"data": 1}]}')
    assert not takes(grammar, '{"children": [{"daat": 1}]}')


def test_a_dynamic_reference_to_another_document_means_the_anchor_of_the_root(compiler):
    closed = {
        "$id": "http://x.test/closed",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"in": {"$dynamicRef": "tree#node"}},
        "additionalProperties": False,
    }
    grammar = compiler.compile(Guide(json_schema=closed))
    assert takes(grammar, '{"in": {"in": {}}}')
    assert not takes(grammar, '{"in": {"data": 1}}')


DRAFTS = ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema")


@pytest.mark.parametrize("draft", DRAFTS)
def test_the_published_schemas_of_drafts_are_known(compiler, draft):
    schema = {"$schema": draft, "properties": {"schema": {"$ref": draft}}, "required": ["schema"]}
    grammar = compiler.compile(Guide(json_schema=schema))
    for inner, fits in (({"type": "null"}, True), ({"type": "nil"}, False)):
        for value in (inner, {"not": {"items": inner}}):
            assert takes(grammar, json.dumps({"schema": value})) == fits


def test_where_they_are_not_installed_the_refusal_says_so(compiler, monkeypatch):
    monkeypatch.setattr(metaschemas, "_metaschemas", dict)
    schema = {"$schema": DRAFTS[0], "items": {"$ref": DRAFTS[0]}}
    with pytest.raises(UnsupportedGuide, match="pip install jsonschema-specifications"):
        compiler.compile(Guide(json_schema=schema))


@pytest.mark.parametrize(
    ("reference", "mend"),
    [("/$defs/n", "'#/$defs/n' is in this one"), ("/$defs/m", "under $defs"), ("n", "under $defs")],
)
def test_a_pointer_without_its_sign_is_told_with_it(compiler, reference, mend):
    with pytest.raises(UnsupportedGuide) as refused:
        compiler.compile(Guide(json_schema={"items": {"$ref": reference}, **WHOLE}))
    assert f"another document; {mend}" in str(refused.value).replace("put that ", "")


@pytest.mark.parametrize(
    ("uri", "keyword"), [("http://x.test/none", "$ref"), ("http://x.test/seven", "$schema")]
)
def test_what_is_not_given_or_of_another_draft_is_refused(compiler, uri, keyword):
    with pytest.raises(UnsupportedGuide) as refused:
        compiler.compile(Guide(json_schema={"$ref": uri}))
    assert refused.value.keyword == keyword


def test_a_relative_id_with_a_folder_is_joined_once(compiler):
    schema = {
        "$id": "http://x.test/",
        "properties": {"p": {"$ref": "#/$defs/in"}},
        "$defs": {"in": {"$id": "a/", "items": {"$ref": "n.json#/$defs/n"}}},
    }
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes(grammar, '{"p": [1]}') and not takes(grammar, '{"p": ["1"]}')


def test_what_content_is_said_to_be_may_have_an_id_of_its_own(compiler):
    inner = {"$id": "n.json", "$defs": {"n": {"minimum": 3}}, "items": {"$ref": "#/$defs/n"}}
    schema = {"contentSchema": inner, "$ref": "#/contentSchema", "type": "array"}
    grammar = compiler.compile(Guide(json_schema=schema))
    assert takes(grammar, "[3]") and not takes(grammar, "[2]")
    compiler.compile(Guide(json_schema={"type": "string", "contentSchema": {"$ref": "x.json"}}))


def test_documents_come_from_a_file_too(tmp_path):
    path = tmp_path / "documents.json"
    path.write_text(json.dumps(DOCUMENTS), "utf-8")
    given = GuideConfig(schema_documents=DOCUMENTS)
    assert GuideConfig(schema_documents=str(path)) == given
    assert hash(GuideConfig(schema_documents=str(path))) == hash(given)
    for wrong in (str(tmp_path / "none.json"), {"http://x.test/": 1}, {"http://x.test/#a": True}):
        with pytest.raises(InvalidParams, match="schema_documents"):
            GuideConfig(schema_documents=wrong)


@pytest.mark.parametrize("index", ["²", "9" * 5000, "1"], ids=["no digit", "too long", "too far"])
def test_a_reference_to_no_item_is_refused_by_name(compiler, index: str) -> None:
    schema = {"$ref": f"#/$defs/a/allOf/{index}", "$defs": {"a": {"allOf": [{"type": "integer"}]}}}
    with pytest.raises(InvalidGuide, match="points to nothing"):
        compiler.compile(Guide(json_schema=schema))
