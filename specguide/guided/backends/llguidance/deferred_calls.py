"""Owns the choice which tools' arguments are left out of a message's grammar and compiled when they
begin: those with plain schemas, which the library never refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from specguide.errors import InvalidGuide
from specguide.guide.guide import check_finite
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.json_in_lark import (
    JSON_OF_LARK,
    Schema,
    joined,
    pieces_of,
    whitespace_of,
    with_rewritten_schemas,
    written_term,
)
from specguide.guided.backends.llguidance.lark_rules import SchemaRules
from specguide.guided.known.call_texts import CallTexts, DeferredCalls
from specguide.guided.notations.grammar_form import behind_space
from specguide.guided.schema.core.enforce import unenforced
from specguide.guided.schema.lowering.plain import plain_core
from specguide.guided.written_cache import WrittenCache

_MOST_CHARACTERS = 32_000
_can_wait: WrittenCache[bool] = WrittenCache(lambda _: 1, most_of_one=64 << 10)


def with_deferred_calls(source: str, texts: CallTexts) -> tuple[str, DeferredCalls]:
    """A message with tool calls, without the schemas that can wait and with the others rewritten;
    and the facts about what is left out.

    Raises InvalidGuide as `with_rewritten_schemas`.
    """
    if texts.arguments is not None:
        return _without_listed(source, texts, texts.arguments)
    schemas: list[str] = []
    is_left_out: list[bool] = []

    def term(text: str, schema: Schema, part: int) -> SchemaRules | str:
        can_wait = part >= texts.num_schemas and _may_wait(text, schema)
        schemas.append(text)
        is_left_out.append(can_wait)
        return texts.left_out if can_wait else written_term(text, schema, part)

    pieces = list(pieces_of(source, term))
    first = texts.num_schemas
    assert len(schemas) == first + len(texts.names)
    places: list[tuple[int, int]] = []
    for (before, _), schema in zip(pieces, schemas, strict=False):
        keyword = (places[-1][1] if places else 0) + len(before)
        begin = behind_space(source, keyword + len(JSON_OF_LARK))
        places.append((begin, begin + len(schema)))
    known = DeferredCalls(vars(texts), places[first:], is_left_out[first:])
    return joined(source, pieces), known


def _without_listed(
    source: str, texts: CallTexts, places: Sequence[Sequence[int]]
) -> tuple[str, DeferredCalls]:
    """The grammar and what is left out of it, where a tool's arguments are listed one by one: if a
    tool's arguments can wait, their terms and rules are left out."""
    pieces: list[str] = []  # pieces of the source, something being left out behind each
    behind: list[str] = []
    numbers = list(range(texts.num_schemas))  # numbers in the source of the schemas that are kept
    is_left_out = list[bool]()
    at = 0
    own = places[0][2]
    num_schemas = texts.num_schemas
    for begin, end, first, last in places:
        schemas = list(_schemas_in(source[first:last] or source[begin:end]))
        is_left_out.append(all(_may_wait(*one) for one in schemas))
        if is_left_out[-1]:
            pieces.append(source[at:begin] + texts.left_out)
            behind.append(source[own:first])
            at, own = end, last
        else:
            numbers += range(num_schemas, num_schemas + len(schemas))
        num_schemas += len(schemas)
    message = "".join((*pieces, source[at : places[0][2]], *behind, source[own:]))
    try:
        message = with_rewritten_schemas(message)
    except InvalidGuide as error:
        error.part = None if error.part is None else numbers[error.part]
        raise
    return message, DeferredCalls(vars(texts), [], is_left_out)


def _schemas_in(source: str) -> Iterator[tuple[str, Schema]]:
    """The schemas of a grammar, each with its text."""
    schemas: list[tuple[str, Schema]] = []

    def term(text: str, schema: Schema, _: int) -> str:
        schemas.append((text, schema))
        return ""

    for _ in pieces_of(source, term):
        yield from schemas
        schemas.clear()


def _may_wait(text: str, schema: Schema) -> bool:
    """Whether a schema with this text can be left out."""
    return len(text) <= _MOST_CHARACTERS and _can_wait.get(text, None, partial(_waits, schema))


def tag_may_wait(schema: Schema) -> bool:
    """Whether a schema of a structural tag can be left out."""
    if not isinstance(schema, Mapping) or "x-guidance" in schema:
        return False
    text = json.dumps(schema)
    return len(text) <= _MOST_CHARACTERS and _can_wait.get(text, True, partial(_is_plain, schema))


def _waits(schema: Schema) -> bool:
    if not isinstance(schema, Mapping) or whitespace_of(schema.get("x-guidance", {})) is None:
        return False
    return _is_plain(schema)


def _is_plain(schema: Schema) -> bool:
    try:
        check_finite(schema, "grammar")
    except InvalidGuide:
        return False
    core = plain_core(schema, LLGUIDANCE.has_open_objects)
    return core is not None and next(unenforced(core, LLGUIDANCE), None) is None
