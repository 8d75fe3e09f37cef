"""Owns the interface that the rules for keywords use: the lowering of one schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from specguide.guided.schema.core.capabilities import Capabilities
from specguide.guided.schema.core.nodes import Core
from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.judging.disjoint import Comparison
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.schema.negation.forms import FailedReference


class Lowering(Protocol):
    """The lowering of one schema."""

    document: Document
    capabilities: Capabilities
    short_formats: bool
    """Whether the shorter expressions of formats are used."""
    instances: Instances
    comparison: Comparison

    def lower(self, schema: Json, place: Place) -> Core:
        """Returns the core of a subschema: all its instances, or some of them."""
        ...

    def without_references(self) -> AbstractContextManager[None]:
        """In its block, the core of a reference's target replaces the reference."""
        ...

    def instead_of(self, keyword: str, place: Place) -> Iterator[Core]:
        """Yields the cores whose conjunction stands for a keyword with a negation, of the subschema
        at `place`."""
        ...

    def failed_condition(self, place: Place) -> Core:
        """Returns the core of the values that fail the `if` of the subschema at `place`."""
        ...

    def reference(self, reference: str, place: Place) -> Core:
        """Returns the core of a `$ref` at `place`."""
        ...

    def failed_reference(self, form: FailedReference) -> Core:
        """Returns the core of the values that fail a referenced subschema."""
        ...


Rule: TypeAlias = Callable[[Lowering, Mapping[str, Json], Place], Iterator[Core]]
"""Lowers one keyword, or several of one topic, of a subschema at a place."""
