"""Owns the choice of a grammar backend for a guide: which ones to try, and what to tell each so
that it enforces all.

JSON Schemas are rewritten into the core and checked keyword by keyword; regular expressions are
written anew, so that no engine reads them in its own way. What a backend would take without
enforcing it is refused here, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from specguide.errors import GuideLimitExceeded, InvalidGuide, UnsupportedGuide
from specguide.guide import Guide, check_finite
from specguide.guided.backends import BACKEND_NAMES, capabilities
from specguide.guided.backends.base import Rewritten
from specguide.guided.backends.grammar_form import behind_space, grammar_form, has_lookahead
from specguide.guided.backends.lark_attributes import lark_attributes
from specguide.guided.backends.schema_rules import NoRules, schema_rules
from specguide.guided.budget import spend
from specguide.guided.regex.charset import EVERYTHING
from specguide.guided.regex.parse import NOTHING, RegexError, UnsupportedRegex, parse
from specguide.guided.regex.writer import restrict, whole, write
from specguide.guided.schema.capabilities import Capabilities
from specguide.guided.schema.emit import emit, in_doubles
from specguide.guided.schema.enforce import unenforced
from specguide.guided.schema.json_values import Json, JsonSchema
from specguide.guided.schema.keywords import weight
from specguide.guided.schema.lower import lower
from specguide.guided.schema.merge import merge
from specguide.guided.schema.nodes import CoreSchema, refuse, tells_fractions
from specguide.guided.schema.prune import prune
from specguide.guided.tag_form import check_tag

_JSON_OF_LARK = "%json"
_CHARACTERS_A_STEP = 2_000
_LARK_OPTIONS = {"json_allowed_escapes": 'nrbtf\\"', "lenient": False, "coerce_one_of": False}


def candidates(guide: Guide, requested: str) -> tuple[str, ...]:
    """Names of the backends to try for a guide, the best first.

    requested: "auto", or the one that is asked for
    """
    if requested != "auto":
        return (requested,)
    if guide.kind == "grammar":
        # llguidance splits text into terminals first, so of an EBNF grammar it takes less than the
        # grammar says.
        return ("xgrammar",) if grammar_form(guide.source()) == "EBNF" else ("llguidance",)
    return BACKEND_NAMES


def rewrites(guide: Guide, backend: str) -> Iterator[Rewritten]:
    """The guide as the backend is to be given it, so that it enforces every bit of it; the best
    first.

    A JSON Schema comes once as its core, and once with all merged that holds at once, which is
    slower to make and gives up the schema's order of properties, but takes nothing for granted that
    a backend does.

    Raises InvalidGuide when the guide is malformed, UnsupportedGuide when the backend would not
    enforce it.
    """
    value = getattr(guide, guide.kind)
    if guide.kind in ("json_schema", "structural_tag") and isinstance(value, str):
        value = json.loads(value)
    if guide.kind == "json_schema":
        for schema in _schemas(value, capabilities(backend)):
            yield Rewritten("json_schema", schema)
    elif guide.kind == "structural_tag":
        check_tag(value)
        yield Rewritten("structural_tag", _tag(value, backend))
    elif guide.kind == "regex":
        yield Rewritten("regex", _regex(value))
    elif guide.kind == "grammar":
        yield Rewritten("grammar", _grammar(value, backend))
    else:
        yield Rewritten(guide.kind, value)


def _schema(schema: JsonSchema, able: Capabilities) -> CoreSchema:
    """The core of a schema inside a tag; merged where the backend could not tell numbers that are
    no integers otherwise."""
    cores = _schemas(schema, able)
    core = next(cores)
    return next(cores, core) if able.merges_fractions and tells_fractions(core) else core


def _schemas(schema: JsonSchema, able: Capabilities) -> Iterator[CoreSchema]:
    """The core, then the merged core, then the core with less of some formats, as far as the
    backend enforces them."""
    try:
        core = lower(schema, able)
    except RecursionError:
        raise GuideLimitExceeded(
            "the schema's subschemas and references lead too deep into each other; make it flatter",
            limit="max_depth",
        ) from None
    yield from _enforced(core, able)
    shorter = lower(schema, able, short_formats=True)
    if shorter != core:
        yield from _enforced(shorter, able)


def _enforced(core: CoreSchema, able: Capabilities) -> Iterator[CoreSchema]:
    """The core and the merged core, as far as the backend enforces them; raises UnsupportedGuide
    for none of them."""
    spend(2 * weight(core))
    doubt = next(unenforced(core, able), None)
    if doubt is None:
        yield core
    try:
        other = prune(merge(core))
        spend(2 * weight(other))
        if next(unenforced(other, able), None) is None:
            yield other
            return
    except (UnsupportedGuide, RecursionError):
        pass  # the reason against the core itself says more
    if doubt is not None:
        raise refuse(doubt.keyword, doubt.path, doubt.reason)


def _regex(pattern: str) -> str:
    try:
        node = restrict(whole(parse(pattern), search=False), EVERYTHING)
    except UnsupportedRegex as error:
        raise UnsupportedGuide(str(error)) from error
    except RegexError as error:
        raise InvalidGuide(str(error), param="regex") from error
    if node == NOTHING:
        raise InvalidGuide(f"the regular expression {pattern!r} matches nothing", param="regex")
    return write(node) or "(?:)"


def _tag(node: Json, backend: str) -> Json:
    """A structural tag with the schemas, regular expressions and grammars in it rewritten."""
    if isinstance(node, list):
        return [_tag(item, backend) for item in node]
    if not isinstance(node, Mapping):
        return node
    tag = {
        name: value if name == "json_schema" else _tag(value, backend)
        for name, value in node.items()
    }
    if isinstance(node.get("json_schema"), (Mapping, bool)):
        tag["json_schema"] = _schema(node["json_schema"], capabilities(backend))
    if node.get("type") == "regex" and isinstance(node.get("pattern"), str):
        tag["pattern"] = _regex(node["pattern"])
    if node.get("type") == "grammar" and isinstance(node.get("grammar"), str):
        tag["grammar"] = _grammar(node["grammar"], backend)
    return tag


def _grammar(source: str, backend: str) -> str:
    form = grammar_form(source)
    if form == "EBNF" and has_lookahead(source):
        raise UnsupportedGuide("the lookahead (= …) in the grammar cannot be enforced")
    if form == "Lark" and backend == "xgrammar":
        read = source.replace("[^", "")  # which negates a class
        ignored = next((sign for sign in (_JSON_OF_LARK, "$", "^") if sign in read), None)
        if ignored is not None:
            raise UnsupportedGuide(f"{ignored} in a Lark grammar would be ignored")
    if form == "Lark" and "temperature" in lark_attributes(source):
        raise UnsupportedGuide(
            "temperature= of a rule in a Lark grammar would be ignored; it is a sampling parameter"
        )
    return "".join(_json_rewritten(source, backend)) if form == "Lark" else source


def _json_rewritten(source: str, backend: str) -> Iterator[str]:
    """A Lark grammar in pieces, with the JSON Schemas in it rewritten; they keep their whitespace
    options.

    Raises InvalidGuide, which says which of them it is.
    """
    done, at, num_schemas = 0, source.find(_JSON_OF_LARK), 0
    while at >= 0:
        found = _schema_at(source, behind_space(source, at + len(_JSON_OF_LARK)))
        if found is None:
            at = source.find(_JSON_OF_LARK, at + len(_JSON_OF_LARK))
            continue
        schema, end = found
        yield source[done:at] + _term_of_lark(schema, backend, num_schemas)
        num_schemas += 1
        done, at = end, source.find(_JSON_OF_LARK, end)
    yield source[done:]


def _term_of_lark(schema: Mapping[str, Json] | bool, backend: str, part: int) -> str:
    """A term for the grammar's schema number `part`. Raises InvalidGuide, which says so."""
    check_finite(schema, "grammar")
    options = schema.get("x-guidance", {}) if isinstance(schema, Mapping) else {}
    try:
        return _lark_schema(_schemas(schema, capabilities(backend)), options)
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
