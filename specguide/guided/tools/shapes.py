"""Owns the shapes in which values are written where arguments are written one by one: as text, as
JSON, or piece by piece in the format's own marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specguide.guided.tools.words import NO_WORDS, Words


@dataclass(frozen=True)
class TextShape:
    """A text that is written as it is.

    beside:   what may stand in its place
    is_apart: it begins with none of JSON_OPENERS
    """

    schema: Mapping[str, Any]
    beside: Words = NO_WORDS
    is_apart: bool = False


@dataclass(frozen=True)
class JsonShape:
    """A value that is written as JSON.

    schema:  it alone, with all that it refers to
    written: the schema as it stands where it is written
    kind:    the one kind of value that it is; "": it may be of several
    """

    schema: Any
    written: Any
    kind: str = ""


@dataclass(frozen=True)
class Member:
    """A value with a name."""

    name: str
    shape: Shape
    is_required: bool


@dataclass(frozen=True)
class ObjectShape:
    """Values with names, in this order."""

    members: Sequence[Member] = ()


@dataclass(frozen=True)
class ArrayShape:
    """Values in a row. most: None: any number of them"""

    item: Shape
    least: int
    most: int | None


@dataclass(frozen=True)
class AnyShape:
    """Any value, written as a literal of Python. kind: "object" or "array"; "": of any kind"""

    kind: str = ""


@dataclass(frozen=True)
class ChoiceShape:
    """One of several shapes, each known by how it begins, or a listed text by all of it."""

    options: Sequence[Shape]


Shape = TextShape | JsonShape | ObjectShape | ArrayShape | AnyShape | ChoiceShape


def names_in(shape: Shape) -> Iterator[str]:
    """The names of all values in a shape."""
    todo = [shape]
    while todo:
        one = todo.pop()
        if isinstance(one, ObjectShape):
            yield from (member.name for member in one.members)
        todo += _parts(one)


def _parts(shape: Shape) -> Sequence[Shape]:
    if isinstance(shape, ObjectShape):
        return [member.shape for member in shape.members]
    if isinstance(shape, ArrayShape):
        return (shape.item,)
    return shape.options if isinstance(shape, ChoiceShape) else ()


def leaves(shape: Shape) -> Iterator[TextShape | JsonShape]:
    """The texts and the JSON in a shape, in order."""
    todo = [shape]
    while todo:
        one = todo.pop()
        if isinstance(one, TextShape | JsonShape):
            yield one
        todo += reversed(_parts(one))
