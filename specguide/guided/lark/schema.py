"""Owns a JSON schema as a term of a Lark rule, left to whoever reads it: the rules of our own, or
the library, whose bounds of numbers are doubles.

Source: llguidance docs/json_schema.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guided.adapters.whitespace import whitespace_regex
from specguide.guided.schema.json_values import Json, JsonSchema

_MOST_LIMITS = 8
BEHIND = '"behind"'
"""The written name of the option by which schemas say behind which texts their JSON begins."""


def schema_term(
    schema: JsonSchema, limits: GuideConfig, behind: Sequence[str] | None = None
) -> str:
    """A JSON schema as a term that leaves it to whoever reads the grammar.

    behind: the texts behind which its JSON begins, as hexadecimal digits of their bytes, where a
            guard follows it; the library does not know of them
    """
    if schema is False:
        raise InvalidGuide("the schema `false` is satisfied by nothing", param="json_schema")
    asked = {} if schema is True else schema
    if behind is None and asked and "x-guidance" not in asked:  # most of them
        ours = _written_options(limits.max_whitespace, limits.max_indent)
        return f"%json {json.dumps(asked)[:-1]}, {ours}"
    options = _options(limits) if behind is None else {**_options(limits), "behind": list(behind)}
    return "%json " + json.dumps({**asked, "x-guidance": options})


def _options(limits: GuideConfig) -> dict[str, Json]:
    # Without \u escapes, as those would spell a property's name in a way that the library takes for
    # another name.
    options: dict[str, Json] = {"whitespace_flexible": False, "json_allowed_escapes": 'nrbtf\\"'}
    if limits.max_whitespace > 0:
        options["whitespace_pattern"] = whitespace_regex(limits)
    return options


@lru_cache(_MOST_LIMITS)
def _written_options(max_whitespace: int, max_indent: int) -> str:
    """The end of a schema's text, with our options."""
    limits = GuideConfig(max_whitespace=max_whitespace, max_indent=max_indent)
    return json.dumps({"x-guidance": _options(limits)})[1:]
