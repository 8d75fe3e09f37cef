"""Owns what rules that rewrite a keyword are given: a schema on its way into the core."""

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
    """One schema on its way into the core."""

    document: Document
    capabilities: Capabilities
    short_formats: bool
    """Whether formats are written with less of their strings."""
    instances: Instances
    comparison: Comparison

    def lower(self, schema: Json, place: Place) -> Core:
        """The core of a subschema: its instances, or some of them."""
        ...

    def without_references(self) -> AbstractContextManager[None]:
        """Until it ends what a reference points to stands in the reference's place."""
        ...

    def instead_of(self, keyword: str, place: Place) -> Iterator[Core]:
        """The core of what stands for a keyword of the subschema at `place`, since it negates
        something; all of it holds."""
        ...

    def failed_condition(self, place: Place) -> Core:
        """The core of what fails the `if` of the subschema at `place`."""
        ...

    def reference(self, reference: str, place: Place) -> Core:
        """The core of what a `$ref` at `place` points to."""
        ...

    def failed_reference(self, form: FailedReference) -> Core:
        """The core of what fails a subschema that is referred to."""
        ...


Rule: TypeAlias = Callable[[Lowering, Mapping[str, Json], Place], Iterator[Core]]
"""Rewrites one keyword, or several that belong together, of a subschema and its place."""
