"""Owns the names that an open object must not have, which xgrammar has no way to forbid.

The library keeps other properties from having a name that is named. So each forbidden name is
named, with a marker as its value, by which its members are found in the grammar that the library
prints. There, a character that does not exist is put in front of them.
"""

from __future__ import annotations

from dataclasses import replace

from specguide.errors import UnsupportedGuide
from specguide.guided.adapters.schema_numbers import NamedNumbers
from specguide.guided.notations.grammar_form import ebnf_parts
from specguide.guided.schema.core.nodes import Core, CoreSchema, Objects, one_of_values, refuse
from specguide.guided.schema.core.walk import with_children

_ABSENT = "absent"
_KEY = '"\\"'
_NO_CHARACTER = r"[^\0-\U0010ffff] "


class AbsentNames:
    """The absent names of one schema."""

    def __init__(self) -> None:
        self._value: str | None = None

    def named(self, names: NamedNumbers, schema: CoreSchema) -> CoreSchema:
        """The schema with markers as values of the properties that must be absent; without these
        properties where only named ones are allowed. Raises UnsupportedGuide where one of them is
        required."""

        def made(core: Core) -> Core:
            if isinstance(core, bool):
                return core
            node = with_children(core, made)
            if not node.kinds.objects.impossible:
                return node
            objects = self._without_absent(names, node.kinds.objects, node.path)
            return replace(node, kinds=replace(node.kinds, objects=objects))

        definitions = {name: made(core) for name, core in schema.definitions.items()}
        return CoreSchema(made(schema.root), definitions)

    def _without_absent(self, names: NamedNumbers, objects: Objects, path: str) -> Objects:
        absent = objects.impossible
        if not absent.isdisjoint(objects.required):
            raise refuse("required", path, f"{min(absent & {*objects.required})!r} has no value")
        properties = {name: one for name, one in objects.properties.items() if name not in absent}
        if not objects.is_closed:
            self._value = names.name_of(_ABSENT)
            properties |= dict.fromkeys(sorted(absent), one_of_values(path, [self._value]))
        return replace(objects, properties=properties)

    def without_members(self, printed: str) -> str:
        """The library's printed grammar, in which members with a marker can no longer occur.
        Raises UnsupportedGuide if the library prints no marker."""
        if self._value is None:
            return printed
        body = rf' ::= (("\"{self._value}\""))'
        rules = printed.split("\n")
        values = {rule.removesuffix(body) for rule in rules if rule.endswith(body)}
        if not values:
            raise UnsupportedGuide(
                "xgrammar cannot exclude properties by name here; set additionalProperties to false"
            )
        return "\n".join(_without(rule, values) for rule in rules)


def _without(rule: str, values: set[str]) -> str:
    """A rule in which members cannot occur whose values are the rules named in `values`."""
    name, arrow, body = rule.partition(" ::= ")
    if values.isdisjoint(body.split()):
        return rule
    written = [name, arrow]
    key = 0
    for sign, text in ebnf_parts(body):
        if sign == '"' and text.startswith(_KEY):
            key = len(written)
        elif not sign and not values.isdisjoint(text.split()):
            written.insert(key, _NO_CHARACTER)
        written.append(text)
    return "".join(written)
