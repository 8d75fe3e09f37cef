"""Owns the JSON Schemas inside a Lark grammar: each is rewritten so that the library enforces all
of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import check_finite
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.lark_rules import (
    Marked,
    SchemaRules,
    alternatives,
    content_name,
)
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.budget import spend
from specguide.guided.grammar_form import behind_space
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.emit import emit, in_doubles
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.nodes import CoreSchema, tells_fractions
from specguide.guided.written_cache import WrittenCache

_JSON_OF_LARK = "%json"
_CHARACTERS_A_STEP = 2_000
_LARK_OPTIONS = {"json_allowed_escapes": 'nrbtf\\"', "lenient": False, "coerce_one_of": False}
_written: WrittenCache[SchemaRules | str] = WrittenCache(
    lambda term: len(str(term)), most_of_one=64 << 10
)


def with_rewritten_schemas(source: str) -> str:
    """A Lark grammar with the JSON Schemas in it rewritten; they keep their whitespace options.

    Raises InvalidGuide, which says which of them it is.
    """
    texts = [""]
    terms: list[SchemaRules | str] = []  # each behind one of the texts
    for text, term in _pieces(source):
        texts[-1] += text
        if term is not None:
            terms.append(term)
            texts.append("")
    return "".join(_joined(texts, terms if "%lark" in source else _once(texts, terms)))


def _pieces(source: str) -> Iterator[tuple[str, SchemaRules | str | None]]:
    """The text in front of each schema, and the term for it; None for what is behind all."""
    done, at, num_schemas = 0, source.find(_JSON_OF_LARK), 0
    while at >= 0:
        found = _schema_at(source, behind_space(source, at + len(_JSON_OF_LARK)))
        if found is None:
            at = source.find(_JSON_OF_LARK, at + len(_JSON_OF_LARK))
            continue
        schema, begin, end = found
        make = partial(_term_of_lark, schema, num_schemas)
        yield source[done:at], _written.get(source[begin:end], None, make)
        num_schemas += 1
        done, at = end, source.find(_JSON_OF_LARK, end)
    yield source[done:], None


def _once(texts: list[str], terms: list[SchemaRules | str]) -> list[SchemaRules | str]:
    """The terms, those that stand several times by the names of rules, which are added to the last
    text."""
    known = Counter(map(str, terms))
    several = {text for text, num in known.items() if num > 1}
    names = {text: "schema_" + content_name(text, terminal=False) for text in sorted(several)}
    texts[-1] += "".join(f"\n{name}: {text}" for text, name in names.items())
    return [names.get(str(term), term) for term in terms]


def _joined(texts: list[str], terms: list[SchemaRules | str]) -> Iterator[str]:
    """A grammar of its texts and the terms between them. A rule whose alternatives are a literal
    and a schema each lets the schemas share what they say."""
    at = 0
    while at < len(terms):
        marks = _marks(texts, at)
        if len(marks) > 1:
            yield texts[at][: texts[at].index(":", texts[at].rfind("\n") + 1)] + ": "
            yield alternatives(list(map(Marked, marks, terms[at : at + len(marks)])))
        else:
            yield texts[at] + str(terms[at])
        at += max(1, len(marks))
    yield texts[-1]


def _marks(texts: list[str], at: int) -> list[str]:
    """The literals in front of the schemas of the rule that begins there; none where it is of
    another form."""
    name, _, rest = texts[at].rpartition("\n")[2].partition(":")
    if not (name.isidentifier() and name.islower()):
        return []
    marks = []
    literal = _literal(rest)
    while literal is not None and at < len(texts) - 1:
        marks.append(literal)
        at += 1
        bar, _, rest = texts[at].partition("|")
        literal = None if bar.strip(" ") else _literal(rest)
    return marks if texts[at][:1] in ("", "\n") else []


def _literal(text: str) -> str | None:
    """What a text says that is a literal and nothing else."""
    text = text.strip(" ")
    try:
        return str(json.loads(text)) if text.startswith('"') else None
    except ValueError:
        return None


def _term_of_lark(schema: Mapping[str, Json] | bool, part: int) -> SchemaRules | str:
    """A term for the grammar's schema number `part`. Raises InvalidGuide, which says so."""
    check_finite(schema, "grammar")
    options = schema.get("x-guidance", {}) if isinstance(schema, Mapping) else {}
    try:
        return _lark_schema(core_schemas(schema, LLGUIDANCE), options)
    except InvalidGuide as error:
        error.part = part
        raise


def _lark_schema(cores: Iterator[CoreSchema], options: Mapping[str, Json]) -> SchemaRules | str:
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


def _schema_at(source: str, at: int) -> tuple[Mapping[str, Json] | bool, int, int] | None:
    """The JSON Schema that stands there, its place, and that behind it; None where there is
    none."""
    if source[at : at + 1] not in ("{", "t", "f"):
        return None
    try:
        schema, end = json.JSONDecoder().raw_decode(source, at)
    except ValueError:  # no schema, or one that the backend will refuse in its own words
        spend(1 + len(source) // _CHARACTERS_A_STEP)  # the error counts the lines before it
        return None
    return (schema, at, end) if isinstance(schema, (Mapping, bool)) else None
