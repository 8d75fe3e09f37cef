"""Owns what an output must match: from the fields of a request to a guide."""

from __future__ import annotations

from typing import Any

from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide import Guide
from specguide.server.requests import ResponseFormat, SamplingFields
from specguide.server.strict import check_strict


def guide_of(fields: SamplingFields, response_format: ResponseFormat | None = None) -> Guide | None:
    """None for free text. Raises InvalidParams and InvalidGuide, which name the field."""
    given = {"response_format": None if response_format is None else _of_format(response_format),
             "structured_outputs": _of_structured(fields),
             "guided_json": _made("guided_json", json_schema=fields.guided_json),
             "guided_regex": _made("guided_regex", regex=fields.guided_regex),
             "guided_choice": _made("guided_choice", choice=fields.guided_choice),
             "guided_grammar": _made("guided_grammar", grammar=fields.guided_grammar)}
    found = {name: guide for name, guide in given.items() if guide is not None}
    if len(found) > 1:
        raise InvalidParams(f"{' and '.join(found)} each say what the output must match; give one",
                            param=list(found)[1])
    return next(iter(found.values()), None)


def _made(param: str, **value: Any) -> Guide | None:
    return None if None in value.values() else _naming(param, **value)


def _of_structured(fields: SamplingFields) -> Guide | None:
    one = fields.structured_outputs
    if one is None:
        return None
    return Guide(json_schema=one.json_, json_object=one.json_object, regex=one.regex, choice=one.choice,
                 grammar=one.grammar, structural_tag=one.structural_tag)


def _of_format(one: ResponseFormat) -> Guide | None:
    if one.type == "text":
        return None
    if one.type == "json_object":
        return Guide(json_object=True)
    if one.type == "json_schema":
        described, param = one.json_schema or {}, "response_format.json_schema.schema"
        schema = described.get("schema")
        if schema is None:
            raise InvalidParams('response_format of type json_schema needs {"json_schema": {"name": …, "schema": …}}',
                                param=param)
        if described.get("strict"):
            check_strict(schema, f"response_format '{described.get('name')}'", param)
        return _naming(param, json_schema=schema)
    tag = None if one.format is None else {"type": "structural_tag", "format": one.format}
    value = {"regex": one.regex or one.pattern, "grammar": one.grammar, "structural_tag": tag}[one.type]
    if value is None:
        field = "format" if one.type == "structural_tag" else one.type
        raise InvalidParams(f"response_format of type {one.type} needs a field {field}",
                            param=f"response_format.{field}")
    return _naming(f"response_format.{one.type}", **{one.type: value})


def _naming(param: str, **value: Any) -> Guide:
    try:
        return Guide(**value)
    except InvalidGuide as error:
        error.param = param
        raise
