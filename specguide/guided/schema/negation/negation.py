"""Owns what rules that negate a keyword are given: the negations of one document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.judging.disjoint import Comparison
from specguide.guided.schema.negation.forms import Form, Given


class Negation(Protocol):
    """The negation of parts of one document."""

    document: Document
    comparison: Comparison

    def failure(self, schema: Json, place: Place) -> Form:
        """What fails a subschema."""
        ...

    def failed_reference(self, reference: str, place: Place) -> Form:
        """What fails the subschema that a `$ref` at `place` points to."""
        ...

    def given(self, schema: Json, place: Place) -> Given:
        """What fits a subschema."""
        ...

    def required_beside(self, place: Place) -> frozenset[str]:
        """Properties that objects have by what always holds along with the subschema there."""
        ...


Rule: TypeAlias = Callable[[Negation, Mapping[str, Json], Place], Iterator[Form]]
"""The ways to fail one keyword of a subschema at a place."""
