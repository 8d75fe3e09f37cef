"""Owns the names of properties in XML styles: an unnamed property must not have the name of a named
one, since its value would replace that one's."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from specguide.errors import UnsupportedGuide
from specguide.guided.regex.charset import union
from specguide.guided.regex.writer import restrict, write
from specguide.guided.schema.core.nodes import Core, CoreSchema
from specguide.guided.schema.core.other_words import strings_beside

_ANY_NAME = "xml_variable_name"
_OTHER_NAME = "xml_other_name"
_CHARACTERS = union([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_MOST_CHARS = 3000
_OF_ANY_OBJECT = ("xml_object", "xml_object_properties")
_BEFORE_NAME = ('="', '>"', '\\""')
"""Ends of literals behind which a name stands; none occurs inside a literal."""


def names_of(schema: CoreSchema) -> Iterator[str]:
    """The names of properties of the value as a whole, over all its alternatives and references."""
    todo: list[Core] = [schema.root]
    seen = set[str]()
    for core in todo:  # it grows
        if isinstance(core, bool):
            continue
        yield from core.kinds.objects.properties
        todo += (*core.any_of, *core.all_of)
        if core.ref is not None and core.ref not in seen:
            seen.add(core.ref)
            todo.append(schema.definitions[core.ref])


def with_other_names(printed: str, names: Collection[str]) -> str:
    """The library's grammar of a schema in a style. Where properties could have any name, they can
    no longer have one of `names`. Raises UnsupportedGuide for too many names."""
    rules = [_with_other_name(rule) for rule in printed.split("\n")] if names else []
    written = "\n".join(rules)
    if not names or written == printed:
        return printed
    if sum(map(len, names)) > _MOST_CHARS:
        raise UnsupportedGuide(
            "xgrammar cannot exclude so many named properties from the additional ones in this "
            "style: set additionalProperties to false"
        )
    others = write(restrict(strings_beside(frozenset((*names, ""))), _CHARACTERS))
    return f"{written}\n{_OTHER_NAME} ::= Regex({json.dumps(others)})\n"


def _with_other_name(rule: str) -> str:
    name, found, body = rule.partition(" ::= ")
    if not found or name in _OF_ANY_OBJECT:
        return rule
    for end in _BEFORE_NAME:
        body = body.replace(f"{end} {_ANY_NAME} ", f"{end} {_OTHER_NAME} ")
    return f"{name}{found}{body}"
