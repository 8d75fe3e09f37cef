"""Owns the way from a request's fields to the guide of its output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide import Guide
from specguide.guide.structural_tags import tag_of
from specguide.guided.limits import encoded
from specguide.server.bodies.base_body import Body
from specguide.server.bodies.requests import TextFormat
from specguide.server.bodies.shared_fields import NamedSchema, ResponseFormat, SamplingFields
from specguide.server.config import ServerConfig
from specguide.server.tasks.schemas import SchemaRules


def schema_rules(config: ServerConfig, fields: SamplingFields) -> SchemaRules:
    """The rules for the request's JSON schemas."""
    asked = fields.structured_outputs
    rules = SchemaRules(config.openai_strict, config.closed_objects)
    return rules if asked is None else rules.closing(asked.disable_additional_properties)


def guide_of(
    fields: SamplingFields, rules: SchemaRules, formats: Mapping[str, Guide | None]
) -> Guide | None:
    """The request's guide, given in one field or the same in several; None for free text.

    formats: guides of an endpoint's own fields, by these fields' names

    Raises InvalidParams and InvalidGuide, which name the field.
    """
    given = {
        **formats,
        "structured_outputs": _of_structured(fields, rules),
        "guided_json": _made("guided_json", json_schema=fields.guided_json),
        "guided_regex": _made("guided_regex", regex=fields.guided_regex),
        "guided_choice": _made("guided_choice", choice=fields.guided_choice),
        "guided_grammar": _made("guided_grammar", grammar=fields.guided_grammar),
        "json_schema": _made("json_schema", json_schema=fields.json_schema),
        "regex": _made("regex", regex=fields.regex),
        "ebnf": _made("ebnf", grammar=fields.ebnf),
    }
    found = {name: guide for name, guide in given.items() if guide is not None}
    guide = next(iter(found.values()), None)
    if any(other != guide for other in found.values()):
        raise InvalidParams(
            f"{' and '.join(found)} each constrain the output; give only one of them",
            param=list(found)[1],
        )
    if guide is None or fields.key_order is None:
        return guide
    return replace(guide, key_order=fields.key_order)


def response_format_guide(one: ResponseFormat | None, rules: SchemaRules) -> Guide | None:
    """The guide of `response_format`. Raises InvalidParams where a field is missing that its type
    needs, and for a field of another type."""
    if one is None:
        return None
    guide = _guide_of_format(one, rules)
    _check_fields(one, "response_format", _TYPES_OF_FIELDS)
    return guide


_TYPES_OF_FIELDS = {
    "schema": ("json_object",),
    "json_schema": ("json_schema",),
    **dict.fromkeys(("regex", "pattern"), ("regex",)),
    "grammar": ("grammar",),
    **dict.fromkeys(("format", "structures", "triggers", "at_least_one"), ("structural_tag",)),
}
"""The types of a `response_format` that read each of its fields."""


def _check_fields(one: Body, place: str, types: Mapping[str, tuple[str, ...]]) -> None:
    """Raises InvalidParams for a field that is not of the type which is asked for: it would be
    taken and change nothing."""
    asked: Any = one
    for name, kinds in types.items():
        value = getattr(one, "schema_" if name == "schema" else name)
        if value is not None and asked.type not in kinds:
            raise InvalidParams(
                f"{place} of type {asked.type} does not read {name}, which is for the type "
                f"{' or '.join(kinds)}: give that type, or leave {name} out",
                param=f"{place}.{name}",
            )


def _guide_of_format(one: ResponseFormat, rules: SchemaRules) -> Guide | None:
    if one.type == "text":
        return None
    if one.type == "json_object":
        return _any_object("response_format.schema", one.schema_)
    if one.type == "json_schema":
        return _of_schema(
            one.json_schema,
            "response_format",
            "response_format.json_schema.schema",
            rules,
        )
    field, value = {
        "regex": ("regex" if one.regex or not one.pattern else "pattern", one.regex or one.pattern),
        "grammar": ("grammar", one.grammar),
        "structural_tag": (
            "format" if one.structures is None else "structures",
            _tag_of_format(one, rules),
        ),
    }[one.type]
    if value is None:
        raise InvalidParams(
            f"response_format of type {one.type} needs a field {field}",
            param=f"response_format.{field}",
        )
    return naming(f"response_format.{field}", **{one.type: value})


def text_format_guide(one: TextFormat | None, rules: SchemaRules) -> Guide | None:
    """The guide of the `text.format` of responses. Raises InvalidParams for a schema of a text."""
    if one is None:
        return None
    _check_fields(one, "text.format", {"schema": ("json_object", "json_schema")})
    if one.type == "text":
        return None
    if one.type == "json_object":
        return _any_object("text.format.schema", one.schema_)
    return _of_schema(one, "text.format", "text.format.schema", rules)


def _tag_of_format(one: ResponseFormat, rules: SchemaRules) -> Any:
    if one.format is not None:
        return {"type": "structural_tag", "format": one.format}
    if one.structures is None:
        return None
    legacy = {name: getattr(one, name) for name in ("structures", "triggers", "at_least_one")}
    return tag_of(legacy, "response_format", rules.closed)


def closed_guide(guide: Guide | None, rules: SchemaRules) -> Guide | None:
    """The guide; the objects of its JSON schema are closed, where the rules ask for that."""
    if guide is None or guide.kind != "json_schema" or not rules.is_closed:
        return guide
    schema = rules.closed(json.loads(guide.source()))
    return Guide(json_schema=schema, key_order=guide.key_order, param=guide.param)


def _any_object(param: str, schema: Any) -> Guide:
    """The guide of the schema; without one, a guide of any JSON object."""
    return _made(param, json_schema=schema) or Guide(json_object=True)


def _made(param: str, **value: Any) -> Guide | None:
    return None if None in value.values() else naming(param, **value)


def _of_structured(fields: SamplingFields, rules: SchemaRules) -> Guide | None:
    one = fields.structured_outputs
    if one is None:
        return None
    kinds = {
        "json": one.json_,
        "json_object": one.json_object,
        "regex": one.regex,
        "choice": one.choice,
        "grammar": one.grammar,
        "structural_tag": tag_of(
            one.structural_tag, "structured_outputs.structural_tag", rules.closed
        ),
    }
    given = [name for name, value in kinds.items() if value is not None]
    if not given:
        if one.disable_additional_properties is not None:
            return None  # it is meant for the schema in another field
        found = ", ".join(one.unknown_fields()) or "none"
        raise InvalidParams(
            f"structured_outputs must have one of {', '.join(kinds)}; found {found}",
            param="structured_outputs",
        )
    param = f"structured_outputs.{given[0]}" if len(given) == 1 else "structured_outputs"
    return naming(param, json_schema=kinds.pop("json"), **kinds)


def _of_schema(named: NamedSchema | None, what: str, param: str, rules: SchemaRules) -> Guide:
    if named is None or named.schema_ is None:
        raise InvalidParams(f"{what} of type json_schema needs a schema at {param}", param=param)
    if named.strict:
        rules.check_strict(named.schema_, f"{what} '{named.name}'", param)
    return naming(param, json_schema=named.schema_)


def naming(param: str, **value: Any) -> Guide:
    """A guide that is valid Unicode, since a chat template may get it. Raises InvalidGuide, which
    names the field."""
    try:
        guide = Guide(**value, param=param)
        encoded(guide.source(), guide.kind)
        return guide
    except InvalidGuide as error:
        error.param = param
        raise
