"""Owns the shapes of values where arguments are written one by one: as raw text, as JSON, or piece
by piece in the format's own marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specguide.guided.tools.words import NO_WORDS, Words


@dataclass(frozen=True)
class TextShape:
    """A raw text.

    beside:   words that may stand in its place
    is_apart: it begins with none of JSON_OPENERS
    """

    schema: Mapping[str, Any]
    beside: Words = NO_WORDS
    is_apart: bool = False


@dataclass(frozen=True)
class JsonShape:
    """A value that is written as JSON.

    schema:  its schema, complete with what it refers to
    written: its schema as it stands in the tool's parameters
    kind:    its only kind of value; "": there may be several
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
    """Values in a row. most: None: any number"""

    item: Shape
    least: int
    most: int | None


@dataclass(frozen=True)
class AnyShape:
    """Any value, written as a Python literal. kind: "object" or "array"; "": any kind"""

    kind: str = ""


@dataclass(frozen=True)
class ChoiceShape:
    """One of several shapes, recognized by its beginning; a listed text is recognized by the
    whole."""

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
