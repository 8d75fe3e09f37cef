"""Owns the JSON Schemas inside a Lark grammar: each is rewritten so that the library enforces all
of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import check_finite
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.budget import spend
from specguide.guided.grammar_form import behind_space
from specguide.guided.schema.capabilities import Capabilities
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.emit import emit, in_doubles
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.nodes import CoreSchema, tells_fractions

_JSON_OF_LARK = "%json"
_CHARACTERS_A_STEP = 2_000
_LARK_OPTIONS = {"json_allowed_escapes": 'nrbtf\\"', "lenient": False, "coerce_one_of": False}


def with_rewritten_schemas(source: str, able: Capabilities) -> str:
    """A Lark grammar with the JSON Schemas in it rewritten; they keep their whitespace options.

    Raises InvalidGuide, which says which of them it is.
    """
    return "".join(pieces(source, partial(_term_of_lark, able=able)))


def pieces(source: str, term: Callable[[Mapping[str, Json] | bool, int], str]) -> Iterator[str]:
    """A Lark grammar with a term in place of each JSON Schema in it.

    term: makes one of a schema and its number
    """
    done, at, num_schemas = 0, source.find(_JSON_OF_LARK), 0
    while at >= 0:
        found = _schema_at(source, behind_space(source, at + len(_JSON_OF_LARK)))
        if found is None:
            at = source.find(_JSON_OF_LARK, at + len(_JSON_OF_LARK))
            continue
        schema, end = found
        yield source[done:at] + term(schema, num_schemas)
        num_schemas += 1
        done, at = end, source.find(_JSON_OF_LARK, end)
    yield source[done:]


def _term_of_lark(schema: Mapping[str, Json] | bool, part: int, able: Capabilities) -> str:
    """A term for the grammar's schema number `part`. Raises InvalidGuide, which says so."""
    check_finite(schema, "grammar")
    options = schema.get("x-guidance", {}) if isinstance(schema, Mapping) else {}
    try:
        return _lark_schema(core_schemas(schema, able), options)
    except InvalidGuide as error:
        error.part = part
        raise


def _lark_schema(cores: Iterator[CoreSchema], options: Mapping[str, Json]) -> str:
    """The first core schema that can be said, as a term of a Lark rule. options: the user's, of
    llguidance"""
    is_usual = options.keys() <= {*_LARK_OPTIONS, "whitespace_flexible", "whitespace_pattern"}
    is_flexible = options.get("whitespace_flexible", True)
    whitespace = options.get("whitespace_pattern") or (r"[ \n\r\t]+" if is_flexible else "")
    for core in cores:
        try:
            if is_usual:
                return schema_rules(core, whitespace)
        except NoRules:
            pass
        if not tells_fractions(core):  # the library has its own way
            written = in_doubles(emit(core))
            return "%json " + json.dumps({**written, "x-guidance": {**options, **_LARK_OPTIONS}})
    raise UnsupportedGuide(
        "llguidance cannot compile numbers that are no integers here", keyword="not"
    )


def _schema_at(source: str, at: int) -> tuple[Mapping[str, Json] | bool, int] | None:
    """The JSON Schema that stands there, and the place behind it; None where there is none."""
    if source[at : at + 1] not in ("{", "t", "f"):
        return None
    try:
        schema, end = json.JSONDecoder().raw_decode(source, at)
    except ValueError:  # no schema, or one that the backend will refuse in its own words
        spend(1 + len(source) // _CHARACTERS_A_STEP)  # the error counts the lines before it
        return None
    return (schema, end) if isinstance(schema, (Mapping, bool)) else None
