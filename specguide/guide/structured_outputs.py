"""Owns the conversion of vLLM's StructuredOutputsParams and GuidedDecodingParams to a Guide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.errors import InvalidParams, UserError
from specguide.guide.guide import Guide
from specguide.guide.structural_tags import tag_of
from specguide.other_engines import OtherOption, without_others

_ALIKE = ("json_object", "regex", "choice", "grammar", "structural_tag", "backend")
_KINDS = {"json": "json_schema", **dict(zip(_ALIKE, _ALIKE, strict=True))}
"""vLLM's names for Guide's fields."""

_WHITESPACE = "leave it out; max_whitespace of GuideConfig limits whitespace"
_OTHERS: Mapping[str, OtherOption] = {
    "disable_fallback": OtherOption(),
    "disable_any_whitespace": OtherOption(_WHITESPACE, ("false",)),
    "whitespace_pattern": OtherOption(_WHITESPACE),
    "disable_additional_properties": OtherOption(
        "write additionalProperties: false into the schema", ("false",)
    ),
}


def guide_of(given: Any, param: str) -> Guide | None:
    """The guide of an object of such a class, or of a mapping with its fields; None where none is
    asked for. param: the field in which it was given. Raises InvalidGuide and InvalidParams."""
    if given is None or isinstance(given, Guide):
        return given
    said = _fields_of(given)
    if said is None:
        raise InvalidParams(
            f'{param} must have a constraint as a field, as {{"json": …}}, found {given!r}',
            param=param,
        )
    try:
        return _made(said, param)
    except UserError as error:
        error.param = param
        raise


def _made(said: Mapping[str, Any], param: str) -> Guide:
    kinds = without_others(_OTHERS, said, lambda name: f"{param}.{name}")
    for name in kinds:
        if name not in _KINDS:
            raise InvalidParams(f"{param} has no {name!r}; known: {', '.join(_KINDS)}")
    if "structural_tag" in kinds:
        kinds["structural_tag"] = tag_of(kinds["structural_tag"], f"{param}.structural_tag")
    return Guide(**{_KINDS[name]: value for name, value in kinds.items()})


def _fields_of(given: Any) -> dict[str, Any] | None:
    """The fields that are set; None for an object without fields. Names with _ are vLLM's own."""
    fields = given if isinstance(given, Mapping) else getattr(given, "__dict__", None)
    if fields is None or isinstance(given, type):
        return None
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not str(name).startswith("_")
    }
