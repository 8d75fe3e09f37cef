"""Owns the writing of a JSON Schema as a term of a Lark rule. The reader of the grammar enforces
it: our own rules, or the library, which has doubles as bounds of numbers.

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
"""The option, as it is written, by which schemas say behind which texts their JSON begins."""


def schema_term(
    schema: JsonSchema, limits: GuideConfig, behind: Sequence[str] | None = None
) -> str:
    """A JSON Schema as a term, which the reader of the grammar must enforce.

    behind: the texts behind which its JSON begins, as hexadecimal digits of their bytes, where a
            guard follows it; the library does not know of them

    Raises InvalidGuide for `false`, which nothing satisfies.
    """
    if schema is False:
        raise InvalidGuide(
            "the schema `false` allows no value at all; write another", param="json_schema"
        )
    keywords = {} if schema is True else schema
    if behind is None and keywords and "x-guidance" not in keywords:  # the usual case
        ours = _written_options(limits.max_whitespace, limits.max_indent)
        return f"%json {json.dumps(keywords)[:-1]}, {ours}"
    options = _options(limits) if behind is None else {**_options(limits), "behind": list(behind)}
    return "%json " + json.dumps({**keywords, "x-guidance": options})


def _options(limits: GuideConfig) -> dict[str, Json]:
    # Without \u escapes: the library would take a property's name that is spelled with one for
    # another name.
    options: dict[str, Json] = {"whitespace_flexible": False, "json_allowed_escapes": 'nrbtf\\"'}
    if limits.max_whitespace > 0:
        options["whitespace_pattern"] = whitespace_regex(limits)
    return options


@lru_cache(_MOST_LIMITS)
def _written_options(max_whitespace: int, max_indent: int) -> str:
    """The last part of a schema's text, with our options."""
    limits = GuideConfig(max_whitespace=max_whitespace, max_indent=max_indent)
    return json.dumps({"x-guidance": _options(limits)})[1:]
