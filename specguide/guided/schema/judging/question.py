"""Owns Question: whether a JSON value is an instance of a subschema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.judging.answers import Answer


class Judge(Protocol):
    """Answers questions about the subschemas of one document."""

    document: Document

    def fits(self, schema: Json, place: Place, value: Json, depth: int = 0) -> Answer:
        """Whether `value` is an instance of the subschema at `place`."""
        ...


@dataclass(frozen=True)
class Question:
    """Whether a value is an instance of a subschema.

    kind:  the value's type
    depth: number of questions around this one
    """

    judge: Judge
    schema: Mapping[str, Json]
    place: Place
    value: Json
    kind: str
    depth: int

    def fits(self, schema: Json, *steps: str | int) -> Answer:
        """Whether the value is an instance of a subschema of this one, at `steps` from it."""
        return self.value_fits(self.value, schema, *steps)

    def value_fits(self, value: Json, schema: Json, *steps: str | int) -> Answer:
        """Whether another value is an instance of a subschema of this one, at `steps` from it."""
        place = self.place
        for step in steps:
            place = place / step
        return self.judge.fits(schema, place, value, self.depth + 1)
