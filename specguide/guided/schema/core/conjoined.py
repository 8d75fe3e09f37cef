"""Owns the conjunction of the parts of one subschema as one node of the core."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TypeVar

from specguide.guided.schema.core.nodes import (
    NO_ARRAYS,
    NO_NUMBERS,
    NO_OBJECTS,
    NO_STRINGS,
    Arrays,
    Core,
    Kinds,
    Node,
    Numbers,
    Objects,
    Strings,
    is_constrained,
    num_constraints,
)


def conjoined(path: str, parts: Iterable[Core]) -> Core:
    """Returns the conjunction of the parts of one subschema. Parts that share no keyword become
    fields of one node; others go into its `all_of`."""
    node: Node | None = None
    for part in parts:
        if part is False:
            return False
        if part is not True:
            node = _alone(path, part) if node is None else _beside(node, part)
    if node is None:
        return True
    asks = num_constraints(node)
    if asks == 1 and len(node.all_of) == 1:
        return node.all_of[0]
    return node if asks else True


def _alone(path: str, part: Node) -> Node:
    """The node for a first part."""
    is_simple = not part.all_of and part.values != () and not part.kinds.numbers.negates
    if part.path == path and is_simple and num_constraints(part) == 1 and not part.is_failure:
        return part
    return _beside(Node(path), part)


def _beside(node: Node, part: Node) -> Node:
    """The conjunction of a node and a part."""
    field = _only_field(part)
    if field == "all_of":
        return replace(node, all_of=node.all_of + part.all_of)
    if field is not None and part.path == node.path:
        if field == "kinds" and not part.kinds.numbers.negates:
            kinds = _kinds_beside(node.kinds, part.kinds)
            if kinds is not None:
                return replace(node, kinds=kinds)
        elif field != "kinds" and not getattr(node, field):
            is_failure = part.is_failure if field == "any_of" else node.is_failure
            return replace(node, is_failure=is_failure, **{field: getattr(part, field)})
    return replace(node, all_of=(*node.all_of, part))


def _kinds_beside(ours: Kinds, theirs: Kinds) -> Kinds | None:
    """The conjunction of two Kinds; None where both set the same field."""
    numbers = _fields_beside(ours.numbers, theirs.numbers, NO_NUMBERS)
    strings = _fields_beside(ours.strings, theirs.strings, NO_STRINGS)
    arrays = _fields_beside(ours.arrays, theirs.arrays, NO_ARRAYS)
    objects = _fields_beside(ours.objects, theirs.objects, NO_OBJECTS)
    if numbers is None or strings is None or arrays is None or objects is None:
        return None
    if ours.types and theirs.types:
        return None
    return Kinds(ours.types or theirs.types, numbers, strings, arrays, objects)


_Constraints = TypeVar("_Constraints", Numbers, Strings, Arrays, Objects)


def _fields_beside(
    ours: _Constraints, theirs: _Constraints, nothing: _Constraints
) -> _Constraints | None:
    if theirs is nothing or ours is nothing:
        return ours if theirs is nothing else theirs
    constrained = {
        field.name: getattr(theirs, field.name)
        for field in fields(theirs)
        if getattr(theirs, field.name) != getattr(nothing, field.name)
    }
    if any(getattr(ours, name) != getattr(nothing, name) for name in constrained):
        return None
    return replace(ours, **constrained)


def _only_field(node: Node) -> str | None:
    """The only field that constrains a node; None where there are several."""
    constraining = []
    if node.values:
        constraining.append("values")
    if node.any_of:
        constraining.append("any_of")
    if node.ref:
        constraining.append("ref")
    if node.all_of:
        constraining.append("all_of")
    if not constraining or is_constrained(node.kinds):
        constraining.append("kinds")
    return constraining[0] if len(constraining) == 1 else None
