"""Schemas that have little to do with the text, and the plain answer to what the text does not
tell.

Real schemas ask for things that a text lacks. The answer is then the same short default every time,
so that guided output ends instead of rambling: `unknown`, `0`, `false`, the first enum member, an
empty array or object.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from training.data import lexicon as lx
from training.data.values import made_up

DEFAULTS = {
    "date": "2024-01-01",
    "time": "12:00:00Z",
    "date-time": "2024-01-01T12:00:00Z",
    "email": "user@example.com",
    "uri": "https://example.com",
    "uri-reference": "https://example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "duration": "P1D",
}
Schema = dict[str, Any]


def default_answer(schema: Schema, root: Schema) -> Any:
    """The smallest plain instance of `schema`: required properties only, shortest strings and
    arrays."""
    if "$ref" in schema:
        return default_answer(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return default_answer(schema[key][0], root)
    kind = schema.get("type", "string")
    kind = kind[-1] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {
            name: default_answer(properties[name], root)
            for name in properties
            if name in schema.get("required", ())
        }
    if kind == "array":
        return [default_answer(schema.get("items", {}), root)] * schema.get("minItems", 0)
    if kind == "string":
        text = DEFAULTS.get(schema.get("format", ""), "unknown")
        return text[: schema.get("maxLength", len(text))] + "x" * (
            schema.get("minLength", 0) - len(text)
        )
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}[kind]


def _name(r: Random) -> str:
    roll = r.random()
    if roll < 0.5:
        return r.choice(lx.NOUNS)
    if roll < 0.75:
        return r.choice(lx.MODIFIERS) + r.choice(("_", "-", "", ".")) + r.choice(lx.NOUNS)
    if roll < 0.9:
        return r.choice(lx.NOUNS) + r.choice(lx.NOUNS).capitalize()
    return r.choice(("$", "x-", "@", "", "_")) + made_up(r).lower()


def _scalar(r: Random) -> Schema:
    roll = r.random()
    if roll < 0.25:
        return {"type": "string"}
    if roll < 0.4:
        return {"type": "string", "format": r.choice(list(DEFAULTS))}
    if roll < 0.48:
        low = r.randint(0, 9)
        return {"type": "string", "minLength": low, "maxLength": low + r.randint(0, 20)}
    if roll < 0.63:
        return (
            {"type": "integer"}
            if roll < 0.57
            else {"type": "integer", "minimum": r.randint(0, 20), "maximum": r.randint(21, 999)}
        )
    if roll < 0.7:
        return {"type": "number"}
    if roll < 0.8:
        return {"type": "boolean"}
    if roll < 0.92:
        return (
            {"type": "string", "enum": r.sample(lx.WORDS, r.randint(1, 5))}
            if roll < 0.9
            else {"enum": [1, "a", None][: r.randint(1, 3)]}
        )
    if roll < 0.95:
        return {"const": r.choice(lx.WORDS)}
    return (
        {"type": [r.choice(("string", "integer", "boolean")), "null"]}
        if roll < 0.98
        else {"type": "null"}
    )


def odd_schema(r: Random, depth: int = 2, definitions: Schema | None = None) -> Schema:
    """A random schema of types, formats, enums, nesting, references and alternatives."""
    roll = r.random()
    if depth == 0 or roll < 0.45:
        return _scalar(r)
    if roll < 0.58:
        schema: Schema = {"type": "array", "items": odd_schema(r, depth - 1, definitions)}
        if r.random() < 0.4:
            schema["minItems"] = r.randint(0, 2)
        return schema
    if roll < 0.64:
        if roll < 0.61:
            return {
                "oneOf": [{"type": "string"}, {"type": r.choice(("integer", "boolean", "object"))}][
                    :: r.choice((1, -1))
                ]
            }
        return {
            "anyOf": [{"type": "string", "maxLength": 40}, odd_schema(r, 0)][:: r.choice((1, -1))]
        }
    if roll < 0.7 and definitions is not None:
        name = _name(r)
        definitions[name] = _scalar(r)
        return {"$ref": f"#/$defs/{name}"}
    return odd_object(r, depth - 1, definitions)


def odd_object(r: Random, depth: int, definitions: Schema | None) -> Schema:
    names = list(
        dict.fromkeys(_name(r) for _ in range(r.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 9, 14))))
    )
    properties = {name: odd_schema(r, depth, definitions) for name in names}
    if r.random() < 0.3:
        for fragment in properties.values():
            if r.random() < 0.5:
                fragment["description"] = (
                    " ".join(r.choices(lx.WORDS, k=r.randint(2, 7))).capitalize() + "."
                )
    for name, fragment in properties.items():
        if r.random() < 0.06:
            fragment[r.choice(("title", "title", "x-order", "default"))] = name
    schema: Schema = {"type": "object", "properties": properties}
    if names and r.random() < 0.8:
        schema["required"] = [name for name in names if r.random() < 0.75] or names[:1]
    if r.random() < 0.4:
        schema["additionalProperties"] = r.choice((False, False, True, {"type": "string"}))
    if r.random() < 0.1:
        schema["patternProperties"] = {"^x-": {}}
    return schema


def odd_task(r: Random) -> tuple[Schema, str]:
    """A random schema and its default answer."""
    definitions: Schema = {}
    schema = odd_object(r, r.randint(0, 3), definitions)
    if definitions:
        schema["$defs"] = definitions
    answer = json.dumps(default_answer(schema, schema), ensure_ascii=False)
    if definitions and r.random() < 0.4:
        schema = json.loads(
            json.dumps(schema, ensure_ascii=False).replace('"#/$defs/', '"#/definitions/')
        )
        schema["definitions"] = schema.pop("$defs")
    if r.random() < 0.4:
        head = {
            "$schema": r.choice(
                (
                    "http://json-schema.org/draft-04/schema#",
                    "http://json-schema.org/draft-07/schema#",
                )
            )
        }
        if r.random() < 0.4:
            head["$id" if r.random() < 0.7 else "id"] = (
                f"https://example.com/{made_up(r).lower()}.json"
            )
        if r.random() < 0.4:
            head["title"] = made_up(r) + " " + r.choice(lx.NOUNS)
        schema = {**head, **schema}
    return schema, answer
