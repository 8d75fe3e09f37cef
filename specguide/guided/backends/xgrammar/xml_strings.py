"""Owns the strings of a schema in an XML style, where a mark ends a value: no string may contain
the mark, since it would be read as shorter than it was written.

The library ensures that for strings without constraints. The others are given names, and a rule for
each name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import xgrammar as xgr

from specguide.errors import UnsupportedGuide
from specguide.guided.adapters.schema_numbers import NamedNumbers
from specguide.guided.regex.both import together
from specguide.guided.regex.charset import complement
from specguide.guided.regex.tree import (
    ANY_TEXT,
    MAX_CHARS,
    NOTHING,
    Both,
    Regex,
    UnsupportedRegex,
    concat,
    literal,
)
from specguide.guided.regex.whole import searched
from specguide.guided.regex.writer import restrict, write
from specguide.guided.schema.core.nodes import (
    NO_STRINGS,
    Core,
    CoreSchema,
    Node,
    Strings,
    any_of,
    one_of_values,
)
from specguide.guided.schema.core.walk import with_parts
from specguide.guided.schema.json_values import Json

_MOST_CHARS = 8_000


@lru_cache(maxsize=16)
def end_mark(style: str) -> str | None:
    """The mark that ends a value in a style; None where no string could contain it."""
    form = {"type": "json_schema", "json_schema": {"type": "object"}, "style": style}
    tag = {"type": "structural_tag", "format": form}
    printed = str(xgr.Grammar.from_structural_tag(tag))
    rule = printed.partition("xml_string ::= TagDispatch(")[2].partition("\n)")[0]
    mark = rule.partition('excludes=("')[2].partition('"')[0]
    return str(json.loads(f'"{mark}"')) or None


class XmlStrings:
    """Puts names into a schema in place of the constraints of strings that are written without
    quotes.

    marks:   texts that none of these strings may contain
    is_deep: strings within values count too; else only values of properties of the whole
    """

    def __init__(self, names: NamedNumbers, marks: Sequence[str], is_deep: bool) -> None:
        self._names, self._marks, self._is_deep = names, marks, is_deep
        self._definitions: dict[str, Core] = {}
        self._added: dict[tuple[str, bool], str] = {}

    def named(self, schema: CoreSchema) -> CoreSchema:
        """The schema with names. Raises UnsupportedGuide where no string fits."""
        self._definitions = dict(schema.definitions)
        root = self._at(schema.root, is_value=False)
        return replace(schema, root=root, definitions=self._definitions)

    def _at(self, core: Core, is_value: bool) -> Core:
        if isinstance(core, bool):
            return core
        if core.ref is not None:
            return replace(core, ref=self._definition(core.ref, is_value))
        node = replace(
            core,
            any_of=tuple(self._at(child, is_value) for child in core.any_of),
            all_of=tuple(self._at(child, is_value) for child in core.all_of),
        )
        if not is_value or self._is_deep:
            kinds = with_parts(node.kinds, lambda child: self._at(child, True))
            node = replace(node, kinds=kinds)
        return self._value(node) if is_value else node

    def _definition(self, name: str, is_value: bool) -> str:
        """The name of a copy of a definition, made for values or for the whole."""
        if (name, is_value) not in self._added:
            added = self._added[name, is_value] = f"{name} {len(self._definitions)}"
            self._definitions[added] = True  # before the copy, which may refer to itself
            self._definitions[added] = self._at(self._definitions[name], is_value)
        return self._added[name, is_value]

    def _value(self, node: Node) -> Core:
        if node.values is not None:
            left = [value for value in node.values if not self._holds_mark(value)]
            if not left:
                mend = "list a value without it"
                raise self._refusal("each of the listed values holds", node.path, mend)
            return one_of_values(node.path, left)
        strings = node.kinds.strings
        types = node.kinds.types or ()
        if strings == NO_STRINGS or "string" not in types:
            return node
        name = self._names.name_of(self._regex(strings, node.path))
        others = tuple(one for one in types if one != "string")
        rest = replace(node, kinds=replace(node.kinds, types=others, strings=NO_STRINGS))
        return any_of(node.path, [one_of_values(node.path, [name]), bool(others) and rest])

    def _holds_mark(self, value: Json) -> bool:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return any(mark in text for mark in self._marks)

    def _regex(self, strings: Strings, path: str) -> str:
        items = list(_constraints(strings))
        but = [concat(ANY_TEXT, literal(mark), ANY_TEXT) for mark in self._marks]
        try:
            found = _written(together(items, but, is_exact=True))
        except UnsupportedRegex:
            found = None
        if found is None and len(items) == 1:  # too long: then without first characters of marks
            firsts = sorted({ord(mark[0]) for mark in self._marks})
            others = complement(tuple((first, first) for first in firsts))
            found = _written(restrict(items[0], others))
        if found is None:
            raise self._refusal("a string could hold", path, "exclude it by a pattern")
        return found

    def _refusal(self, what: str, path: str, mend: str) -> UnsupportedGuide:
        marks = " or ".join(map(repr, self._marks))
        return UnsupportedGuide(
            f"{what} {marks}, which ends a value or is excluded, at {path or 'the root'}; {mend}"
        )


def _constraints(strings: Strings) -> Iterable[Regex]:
    if strings.pattern is not None:
        yield searched(strings.pattern)
    if strings.min_length is not None or strings.max_length is not None:
        most = "" if strings.max_length is None else strings.max_length
        yield searched(f"^[\\0-\\u{{10FFFF}}]{{{strings.min_length or 0},{most}}}$")


def _written(node: Regex) -> str | None:
    """A regular expression as text; None where it is too long, or matches nothing."""
    if isinstance(node, Both) or node == NOTHING:
        return None
    text = write(node)
    return text if len(text) <= min(MAX_CHARS, _MOST_CHARS) else None
