"""The JSON schema and the answer of a record, in the many ways that people write schemas.

Answers are made with `json.dumps` default separators on one line (`answer_style` may change them),
properties in schema order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from training.data.records import Node, Record
from training.data.values import Value


@dataclass(frozen=True, slots=True)
class SchemaStyle:
    """How one schema is written: how absence, descriptions and nesting are expressed."""

    absent: str  # "null": required and nullable; "omit": not required
    null_form: str  # "list" or "any_of"
    describe: float
    closed: bool
    use_refs: bool
    list_required: bool


def random_style(r: Random) -> SchemaStyle:
    return SchemaStyle(
        absent="null" if r.random() < 0.6 else "omit",
        null_form="list" if r.random() < 0.7 else "any_of",
        describe=r.choice((0.0, 0.0, 0.3, 0.8, 1.0)),
        closed=r.random() < 0.4,
        use_refs=r.random() < 0.12,
        list_required=r.random() < 0.9,
    )


def dump_schema(r: Random, schema: dict[str, Any]) -> str:
    """The schema as text: default separators mostly, else compact or indented."""
    roll = r.random()
    if roll < 0.75:
        return json.dumps(schema, ensure_ascii=False)
    if roll < 0.88:
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(schema, ensure_ascii=False, indent=2)


def _described(
    r: Random, style: SchemaStyle, node: Node, fragment: dict[str, Any]
) -> dict[str, Any]:
    if style.describe and "description" not in fragment and r.random() < style.describe:
        text = node.spec.description
        if not text or r.random() < 0.25:
            text = r.choice(node.spec.labels)
        fragment = (
            {**fragment, "description": text}
            if r.random() < 0.8
            else {"description": text, **fragment}
        )
    return fragment


def _nullable(style: SchemaStyle, fragment: dict[str, Any]) -> dict[str, Any]:
    if style.null_form == "any_of" or "enum" in fragment:
        text = {key: value for key, value in fragment.items() if key == "description"}
        core = {key: value for key, value in fragment.items() if key != "description"}
        return {"anyOf": [core, {"type": "null"}], **text}
    return {**fragment, "type": [fragment["type"], "null"]}


def _extras(r: Random, value: Value | None, fragment: dict[str, Any]) -> dict[str, Any]:
    if r.random() < 0.06:
        kind = fragment.get("type")
        if kind == "string" and len(fragment) == 1:
            return (
                {**fragment, "minLength": 1}
                if r.random() < 0.5
                else {**fragment, "maxLength": r.choice((80, 100, 200))}
            )
        if kind in ("integer", "number") and value is not None and value.json[0] != "-":
            return {**fragment, "minimum": 0}
    return fragment


class _Builder:
    """Builds schema and answer side by side, so that both have the same properties in the same
    order."""

    def __init__(self, r: Random, style: SchemaStyle) -> None:
        self.r, self.style = r, style
        self.definitions: dict[str, Any] = {}

    def members(self, nodes: list[Node]) -> tuple[dict[str, Any], str]:
        properties = {}
        required = []
        parts = []
        for node in nodes:
            if not node.asked:
                continue
            fragment, text, is_required = self.one(node)
            properties[node.key] = fragment
            if is_required:
                required.append(node.key)
            if text is not None:
                parts.append(f'"{node.key}": {text}')
        return self.object(properties, required), "{" + ", ".join(parts) + "}"

    def object(self, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required and self.style.list_required:
            schema["required"] = required
        if self.style.closed:
            schema["additionalProperties"] = False
        return schema

    def one(self, node: Node) -> tuple[dict[str, Any], str | None, bool]:
        if node.spec.shape == "leaf":
            return self.leaf(node)
        if node.spec.shape == "list":
            item = node.values[0].schema if node.values else {"type": "string"}
            schema = _described(self.r, self.style, node, {"type": "array", "items": item})
            return schema, "[" + ", ".join(value.json for value in node.values) + "]", True
        if node.spec.shape == "group":
            schema, text = self.members(node.children)
            return _described(self.r, self.style, node, self.shared(node, schema)), text, True
        return self.rows(node)

    def leaf(self, node: Node) -> tuple[dict[str, Any], str | None, bool]:
        value = node.value
        schema = (value or node.spec.generate(self.r)).schema  # type: ignore[misc]
        fragment = _described(self.r, self.style, node, _extras(self.r, value, schema))
        if value is not None and not (node.spec.optional and self.r.random() < 0.8):
            return fragment, value.json, self.r.random() < 0.95
        if self.style.absent == "null" or not self.style.list_required:
            return _nullable(self.style, fragment), value.json if value else "null", True
        return fragment, value.json if value else None, False

    def rows(self, node: Node) -> tuple[dict[str, Any], str, bool]:
        kept = [index for index, child in enumerate(node.children) if child.asked]
        properties = {}
        for index in kept:
            child = node.children[index]
            properties[child.key] = _described(
                self.r, self.style, child, node.rows[0][index].schema
            )
        item = self.shared(node, self.object(properties, list(properties)))
        schema = _described(self.r, self.style, node, {"type": "array", "items": item})
        rows = (
            "{" + ", ".join(f'"{node.children[i].key}": {row[i].json}' for i in kept) + "}"
            for row in node.rows
        )
        return schema, "[" + ", ".join(rows) + "]", True

    def shared(self, node: Node, schema: dict[str, Any]) -> dict[str, Any]:
        if not self.style.use_refs:
            return schema
        name = node.spec.name.title().replace("_", "")
        self.definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}


def schema_and_answer(
    r: Random, record: Record, shuffle: bool = True
) -> tuple[dict[str, Any], str]:
    """A schema for the asked fields of `record`, and the one right answer as JSON text."""
    nodes = list(record.nodes)
    if shuffle and r.random() < 0.3:
        r.shuffle(nodes)
    builder = _Builder(r, random_style(r))
    schema, answer = builder.members(nodes)
    head: dict[str, Any] = {}
    if r.random() < 0.15:
        head["$schema"] = r.choice(
            (
                "http://json-schema.org/draft-07/schema#",
                "https://json-schema.org/draft/2020-12/schema",
            )
        )
    if r.random() < 0.2:
        head["title"] = record.kind.name.replace("_", " ").title().replace(" ", r.choice(("", " ")))
    if builder.definitions:
        schema["$defs"] = builder.definitions
    return {**head, **schema}, answer
