"""Owns the interface that the rules for keywords use: the negations of one document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.judging.disjoint import Comparison
from specguide.guided.schema.negation.forms import Form, Given


class Negation(Protocol):
    """Makes the negations of one document."""

    document: Document
    comparison: Comparison

    def failure(self, schema: Json, place: Place) -> Form:
        """Returns the form of the values that fail a subschema."""
        ...

    def failed_reference(self, reference: str, place: Place) -> Form:
        """Returns the form of the values that fail the target of a `$ref` at `place`."""
        ...

    def given(self, schema: Json, place: Place) -> Given:
        """Returns the form of a subschema's instances."""
        ...

    def required_beside(self, place: Place) -> frozenset[str]:
        """Returns the properties that subschemas around the one at `place` require of the same
        object."""
        ...


Rule: TypeAlias = Callable[[Negation, Mapping[str, Json], Place], Iterator[Form]]
"""Yields the ways to fail one keyword of a subschema at a place."""
