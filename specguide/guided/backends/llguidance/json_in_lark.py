"""Owns the JSON Schemas inside a Lark grammar: each is rewritten so that the library enforces all
of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide.guide import check_finite
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.core_rules import core_rules
from specguide.guided.backends.llguidance.lark_rules import (
    Marked,
    SchemaRules,
    alternatives,
    content_name,
)
from specguide.guided.backends.llguidance.own_reading import as_llguidance_reads
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.backends.llguidance.schema_terminals import (
    NoRules,
    no_exclusion,
    no_free_rules,
)
from specguide.guided.budget import spend
from specguide.guided.known.items import KnownItems
from specguide.guided.known.keys import KnownKeys
from specguide.guided.notations.grammar_form import behind_space
from specguide.guided.schema.core.emit import emit
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.core.walk import negates_numbers
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.places.distinct import distinct_places
from specguide.guided.schema.places.key_places import key_places
from specguide.guided.written_cache import WrittenCache

JSON_OF_LARK = "%json"
_CHARACTERS_A_STEP = 2_000
_DECODER = json.JSONDecoder()
_LARK_OPTIONS = {"json_allowed_escapes": 'nrbtf\\"', "lenient": False, "coerce_one_of": False}
Schema = Mapping[str, Json] | bool
MakeTerm = Callable[[str, Schema, int], SchemaRules | str]
"""Makes a term from a schema's text, the schema, and its number in the grammar."""
_written: WrittenCache[SchemaRules | str] = WrittenCache(
    lambda term: len(str(term)), most_of_one=64 << 10
)
Places = list[dict[str, Json]]
_freed: WrittenCache[tuple[SchemaRules, Places, Places, list[bytes]]] = WrittenCache(
    lambda freed: len(str(freed[0])), most_of_one=64 << 10
)
_guarded: WrittenCache[tuple[SchemaRules | str, Places, list[bytes]]] = WrittenCache(
    lambda guarded: len(str(guarded[0])), most_of_one=64 << 10
)


def with_rewritten_schemas(source: str) -> str:
    """A Lark grammar with its JSON Schemas rewritten; they keep their whitespace options.

    Raises InvalidGuide, with the number of the schema.
    """
    return with_terms(source, written_term)


def written_term(text: str, schema: Schema, part: int) -> SchemaRules | str:
    """The term for a schema with this text. Raises InvalidGuide, with `part`, the schema's number
    in the grammar."""
    return _written.get(text, None, partial(_term_of_lark, schema, part))


def with_free_keys(source: str) -> tuple[str, KnownKeys, KnownItems | None]:
    """A Lark grammar whose objects take their keys in any order, and the facts for the guards of
    these objects and of arrays of distinct items.

    Each schema says behind which texts its JSON begins: its option `behind` lists their bytes as
    hexadecimal digits.

    Raises InvalidGuide, with the number of the schema.
    """
    keys, items = KnownKeys(), KnownItems()

    def term(text: str, schema: Schema, part: int) -> SchemaRules:
        rules, places, distinct, behind = _freed.get(text, None, partial(_freed_term, schema, part))
        keys.add(places, behind)
        items.add(distinct, behind)
        return rules

    return with_terms(source, term), keys, items.unless_needless()


def with_distinct_items(source: str) -> tuple[str, KnownItems | None]:
    """See `with_free_keys`, but keys keep the schemas' order. A schema without the option `behind`
    must not require distinct items."""
    items = KnownItems()

    def term(text: str, schema: Schema, part: int) -> SchemaRules | str:
        rules, places, behind = _guarded.get(text, None, partial(_guarded_term, schema, part))
        items.add(places, behind)
        return rules

    return with_terms(source, term), items.unless_needless()


def with_terms(source: str, make: MakeTerm) -> str:
    """A grammar with a term in place of each schema."""
    return joined(source, pieces_of(source, make))


def joined(source: str, pieces: Iterable[tuple[str, SchemaRules | str | None]]) -> str:
    """The grammar that the pieces of `pieces_of` make."""
    texts = [""]
    terms: list[SchemaRules | str] = []  # the term behind each text but the last
    for text, term in pieces:
        texts[-1] += text
        if term is not None:
            terms.append(term)
            texts.append("")
    return "".join(_joined(texts, terms if "%lark" in source else _once(texts, terms)))


def pieces_of(source: str, make: MakeTerm) -> Iterator[tuple[str, SchemaRules | str | None]]:
    """The text in front of each schema, with the term for it; at the end the text behind all, with
    None."""
    done = 0
    at = source.find(JSON_OF_LARK)
    num_schemas = 0
    while at >= 0:
        located = _schema_at(source, behind_space(source, at + len(JSON_OF_LARK)))
        if located is None:
            at = source.find(JSON_OF_LARK, at + len(JSON_OF_LARK))
            continue
        schema, begin, end = located
        yield source[done:at], make(source[begin:end], schema, num_schemas)
        num_schemas += 1
        done = end
        at = source.find(JSON_OF_LARK, end)
    yield source[done:], None


def _once(texts: list[str], terms: list[SchemaRules | str]) -> list[SchemaRules | str]:
    """The terms, with names of rules in place of those that occur several times; these rules are
    added to the last text."""
    known = Counter(map(str, terms))
    several = {text for text, num in known.items() if num > 1}
    names = {text: "schema_" + content_name(text, terminal=False) for text in sorted(several)}
    texts[-1] += "".join(f"\n{name}: {text}" for text, name in names.items())
    return [names.get(str(term), term) for term in terms]


def _joined(texts: list[str], terms: list[SchemaRules | str]) -> Iterator[str]:
    """The parts of a grammar, from its texts and the terms between them. Where each alternative of
    a rule is a literal and a schema, the schemas share their rules."""
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
    """The literals in front of the schemas of the rule that begins there; empty where the rule has
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
    """The content of a text that is one literal; else None."""
    text = text.strip(" ")
    try:
        return str(json.loads(text)) if text.startswith('"') else None
    except ValueError:
        return None


def _freed_term(schema: Schema, part: int) -> tuple[SchemaRules, Places, Places, list[bytes]]:
    """The rules of the grammar's schema number `part`, its places, the places for its arrays of
    distinct items, and the texts behind which it begins. Raises InvalidGuide with `part`."""
    check_finite(schema, "grammar")
    options = dict(schema.get("x-guidance", {})) if isinstance(schema, Mapping) else {}
    behind = options.pop("behind", None)
    whitespace = whitespace_of(options)
    try:
        starts = _starts(behind or [])
        if behind is None or whitespace is None:
            raise UnsupportedGuide(
                "a JSON Schema in a grammar has the keys of an object in its own order; ask for "
                'key_order "schema"'
            )
        able = LLGUIDANCE.with_free_keys().with_guard()
        return *_first_freed(core_schemas(schema, able), whitespace), starts
    except InvalidGuide as error:
        error.part = part
        raise


def _first_freed(
    cores: Iterator[CoreSchema], whitespace: str
) -> tuple[SchemaRules, Places, Places]:
    reasons: list[UnsupportedGuide] = []
    for core in cores:
        try:
            freed, places = key_places(core)
            return schema_rules(freed, whitespace), places, distinct_places(freed)
        except UnsupportedGuide as error:
            reasons.append(error)
        except NoRules as error:
            reasons.append(no_free_rules(error))
    raise next((error for error in reasons if error.keyword), reasons[0])


def whitespace_of(options: Mapping[str, Json]) -> str | None:
    """A regular expression of the whitespace between two JSON tokens, from a user's options; None
    where these include others."""
    if not options.keys() <= {*_LARK_OPTIONS, "whitespace_flexible", "whitespace_pattern"}:
        return None
    is_flexible = options.get("whitespace_flexible", True)
    return options.get("whitespace_pattern") or (r"[ \n\r\t]+" if is_flexible else "")


def _term_of_lark(schema: Schema, part: int) -> SchemaRules | str:
    """A term for the grammar's schema number `part`. Raises InvalidGuide with `part`."""
    return _guarded_term(schema, part, may_guard=False)[0]


def _guarded_term(
    schema: Schema, part: int, *, may_guard: bool = True
) -> tuple[SchemaRules | str, Places, list[bytes]]:
    """A term for the grammar's schema number `part`, the places for its arrays of distinct items,
    and the texts behind which its JSON begins."""
    check_finite(schema, "grammar")
    options = dict(schema.get("x-guidance", {})) if isinstance(schema, Mapping) else {}
    behind = options.pop("behind", None) if may_guard else None
    able = LLGUIDANCE if behind is None else LLGUIDANCE.with_guard()
    try:
        starts = _starts(behind or [])
        term, core = _lark_schema(core_schemas(schema, able), options)
        return term, distinct_places(core), starts
    except InvalidGuide as error:
        error.part = part
        raise


def _starts(behind: Json) -> list[bytes]:
    """The texts of a schema's option `behind`. Raises InvalidGuide where they are not hexadecimal
    digits."""
    try:
        starts = [bytes.fromhex(digits) for digits in behind]
        if all(starts):
            return starts
    except (TypeError, ValueError):
        pass
    raise InvalidGuide("x-guidance.behind must be a list of hexadecimal digits", param="grammar")


def _lark_schema(
    cores: Iterator[CoreSchema], options: Mapping[str, Json]
) -> tuple[SchemaRules | str, CoreSchema]:
    """The first core schema that can be expressed, as a term of a Lark rule. options: the user's
    own for llguidance"""
    whitespace, refused = whitespace_of(options), NoRules()
    for core in cores:
        try:
            if whitespace is not None:
                return core_rules(core, whitespace), core
        except NoRules as error:
            refused = error
        if not negates_numbers(core):  # the library reads it in its own way
            written = as_llguidance_reads(emit(core))
            guidance = {"x-guidance": {**options, **_LARK_OPTIONS}}
            return "%json " + json.dumps({**written, **guidance}), core
    raise no_exclusion(refused)


def _schema_at(source: str, at: int) -> tuple[Schema, int, int] | None:
    """The JSON Schema at a position, with its begin and end; None where there is none."""
    if source[at : at + 1] not in ("{", "t", "f"):
        return None
    try:
        schema, end = _DECODER.raw_decode(source, at)
    except ValueError:  # no schema, or one that the backend will refuse by itself
        spend(1 + len(source) // _CHARACTERS_A_STEP)  # the error counts the lines before it
        return None
    return (schema, at, end) if isinstance(schema, (Mapping, bool)) else None
