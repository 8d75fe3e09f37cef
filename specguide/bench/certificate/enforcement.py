"""Owns which part enforces each keyword of a schema: the backend's grammar, a rewrite of the schema
before it, a guard around it, or nothing if the keyword is an annotation."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from specguide.config import GuideConfig
from specguide.guided.backends import backend_spec
from specguide.guided.budget import Budget
from specguide.guided.schema.core.keywords import UNIQUE_ITEMS, keywords
from specguide.guided.schema.core.nodes import Core, CoreSchema, Node
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.formats import FORMATS
from specguide.guided.schema.topics import TOPIC_OF

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values are subschemas by name."""
_VALUES = ("enum", "const", "default", "examples", "example", "required")
_OF_IF = ("then", "else")
_STRUCTURE = ("$schema", "$id", "id", "$defs", "definitions", "$anchor", "$vocabulary")
_RULES = "specguide's rewriting, then {}"


class Enforcement(NamedTuple):
    """How one keyword of a schema is enforced.

    num:   how often the schema has it
    by:    what enforces it
    alone: what the library does with it in the original schema; None for a keyword that no library
           is asked about
    """

    keyword: str
    num: int
    by: str
    alone: str | None


def enforcement(schema: Any, backend: str) -> list[Enforcement]:
    """How each keyword of a schema is enforced, in the schema's order.

    Raises InvalidGuide, UnsupportedGuide.
    """
    able = backend_spec(backend).enforced()
    with Budget(GuideConfig().max_schema_steps).counting():
        of_core = set(_core_keywords(next(core_schemas(schema, able.with_guard()))))
    found = []
    for keyword, num in Counter(_keywords(schema)).items():
        name, _, which = keyword.partition(" ")
        level = able.keywords[name].level.value if name in able.keywords else None
        found.append(Enforcement(keyword, num, _by(name, which, backend, of_core), level))
    return found


def _by(keyword: str, which: str, backend: str, of_core: set[str]) -> str:
    if keyword in _STRUCTURE:
        return "the schema's own structure"
    if keyword == "format":
        asked = f"a pattern of specguide's, {backend}"
        return asked if which in FORMATS else "nobody: a format of no assertion"
    if keyword == UNIQUE_ITEMS:
        return "a guard beside the grammar" if UNIQUE_ITEMS in of_core else _RULES.format(backend)
    if keyword not in TOPIC_OF and keyword not in _OF_IF:
        return "nobody: an annotation"
    return backend if keyword in of_core else _RULES.format(backend)


def _core_keywords(schema: CoreSchema) -> Iterator[str]:
    """The keywords of a core schema."""
    todo: list[Any] = [schema.root, *schema.definitions.values()]
    seen: set[int] = set()
    while todo:
        one: Core | Any = todo.pop()
        if isinstance(one, Node) and id(one) not in seen:
            seen.add(id(one))
            found = keywords(one)
            yield from found
            todo += found.values()
        elif isinstance(one, Mapping):
            todo += one.values()
        elif isinstance(one, tuple):
            todo += one


def _keywords(schema: Any) -> Iterator[str]:
    """The keywords of a schema and of all schemas in it; "format" includes the format's name."""
    todo = deque([schema])
    while todo:
        one = todo.popleft()
        if not isinstance(one, Mapping):
            todo += one if isinstance(one, list) else ()
            continue
        for keyword, value in one.items():
            yield f"format {value}" if keyword == "format" else keyword
            if keyword in _NAMED and isinstance(value, Mapping):
                todo += value.values()
            elif keyword not in _VALUES:
                todo.append(value)
