"""Owns what an output must match: from the fields of a request to a guide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide import Guide
from specguide.server.requests import ResponseFormat, SamplingFields, TextFormat
from specguide.server.strict import check_strict


def guide_of(
    fields: SamplingFields, formats: Mapping[str, Guide | None] | None = None
) -> Guide | None:
    """The one that is given. formats: those of an endpoint's own fields, by their names.

    None for free text. Raises InvalidParams and InvalidGuide, which name the field.
    """
    given = {
        **(formats or {}),
        "structured_outputs": _of_structured(fields),
        "guided_json": _made("guided_json", json_schema=fields.guided_json),
        "guided_regex": _made("guided_regex", regex=fields.guided_regex),
        "guided_choice": _made("guided_choice", choice=fields.guided_choice),
        "guided_grammar": _made("guided_grammar", grammar=fields.guided_grammar),
    }
    found = {name: guide for name, guide in given.items() if guide is not None}
    if len(found) > 1:
        raise InvalidParams(
            f"{' and '.join(found)} each say what the output must match; give one",
            param=list(found)[1],
        )
    return next(iter(found.values()), None)


def _made(param: str, **value: Any) -> Guide | None:
    return None if None in value.values() else naming(param, **value)


def _of_structured(fields: SamplingFields) -> Guide | None:
    one = fields.structured_outputs
    if one is None:
        return None
    return Guide(
        json_schema=one.json_,
        json_object=one.json_object,
        regex=one.regex,
        choice=one.choice,
        grammar=one.grammar,
        structural_tag=one.structural_tag,
    )


def response_format_guide(one: ResponseFormat | None) -> Guide | None:
    """Of chat's `response_format`."""
    if one is None or one.type == "text":
        return None
    if one.type == "json_object":
        return Guide(json_object=True)
    if one.type == "json_schema":
        return _of_schema(
            one.json_schema or {}, "response_format", "response_format.json_schema.schema"
        )
    tag = None if one.format is None else {"type": "structural_tag", "format": one.format}
    value = {"regex": one.regex or one.pattern, "grammar": one.grammar, "structural_tag": tag}[
        one.type
    ]
    if value is None:
        field = "format" if one.type == "structural_tag" else one.type
        raise InvalidParams(
            f"response_format of type {one.type} needs a field {field}",
            param=f"response_format.{field}",
        )
    return naming(f"response_format.{one.type}", **{one.type: value})


def text_format_guide(one: TextFormat | None) -> Guide | None:
    """Of the `text.format` of responses."""
    if one is None or one.type == "text":
        return None
    if one.type == "json_object":
        return Guide(json_object=True)
    return _of_schema(one.model_dump(by_alias=True), "text.format", "text.format.schema")


def _of_schema(described: Mapping[str, Any], what: str, param: str) -> Guide:
    """Of a name, a schema and whether it is strict."""
    schema = described.get("schema")
    if schema is None:
        raise InvalidParams(
            f'{what} of type json_schema needs {{"name": …, "schema": …}}', param=param
        )
    if described.get("strict"):
        check_strict(schema, f"{what} '{described.get('name')}'", param)
    return naming(param, json_schema=schema)


def naming(param: str, **value: Any) -> Guide:
    """A guide. Raises InvalidGuide, which names the field."""
    try:
        return Guide(**value)
    except InvalidGuide as error:
        error.param = param
        raise
