"""Owns the check that a JSON value is an instance of a subschema as the user wrote it.

Needed for the values that a schema enumerates. The answer is None where it is not certain: for
keywords that are not read here, for formats of which our expressions leave strings out, and after
too many steps. Source: JSON Schema drafts 4, 6, 7, 2019-09 and 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.regex.tree import RegexError
from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json, json_type
from specguide.guided.schema.judging.answers import Answer, all_hold
from specguide.guided.schema.judging.instance_rules import RULES
from specguide.guided.schema.judging.question import Question

MAX_STEPS = 200_000
_MAX_DEPTH = 60


class Instances:
    """Checks values against subschemas of one document; after MAX_STEPS steps all is unknown."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._num_steps = 0

    def fits(self, schema: Json, place: Place, value: Json, depth: int = 0) -> Answer:
        """Whether `value` is an instance of the subschema at `place`."""
        spend(4)
        self._num_steps += 1
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._num_steps > MAX_STEPS:
            return None
        try:
            schema, place = self.document.read(schema, place)
            question = Question(self, schema, place, value, json_type(value), depth)
            rules = dict.fromkeys(rule for keyword, rule in RULES.items() if keyword in schema)
            return all_hold(rule(question) for rule in rules)
        except (InvalidGuide, RegexError):  # lowering reports it
            return None
