"""Owns the first pass: a JSON Schema with forms in place of its negations.

Not only `not` negates: `else` holds for values that fail the condition, an instance of one branch
of a `oneOf` fails the others, and the items beyond `maxContains` fail `contains`. The pass visits
every subschema that may be lowered. It raises no error for what cannot be negated, since that may
not be needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from specguide.errors import InvalidGuide
from specguide.guided.budget import at_work, spend
from specguide.guided.schema.document.cycles import check_references
from specguide.guided.schema.document.document import AS_USUAL, Document, Place, Reading
from specguide.guided.schema.json_values import Json, JsonSchema, is_object
from specguide.guided.schema.judging.disjoint import Comparison
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.schema.negation.fail import fail
from specguide.guided.schema.negation.forms import (
    Conditional,
    FailedReference,
    Form,
    Given,
    Refused,
)
from specguide.guided.schema.negation.negation import Negation, Rule
from specguide.guided.schema.negation.one_of import one_branch
from specguide.guided.schema.subschemas import subschemas
from specguide.guided.schema.topics import DYNAMIC

_STEPS_A_SUBSCHEMA = 10


@dataclass(frozen=True)
class PositiveSchema:
    """A JSON Schema without negations.

    document: the user's schema
    forms:    by JSON pointer of a subschema and a keyword: forms whose conjunction replaces the
              keyword
    failures: by JSON pointer of a subschema: the form of the values that fail it, if needed
    """

    document: Document
    forms: Mapping[tuple[str, str], tuple[Form, ...]]
    failures: Mapping[str, Form]


def without_negations(schema: JsonSchema, reading: Reading = AS_USUAL) -> PositiveSchema:
    """Returns the schema with forms in place of its negations.

    Raises UnsupportedGuide for draft 3, for documents of different drafts and for a reference that
    leads back to itself; InvalidGuide for an `$id` that is no URI.
    """
    document = Document(schema, reading)
    check_references(document)
    negations = _Negations(document)
    if reading.documents or _may_negate(schema):
        negations.follow()
    return PositiveSchema(negations.document, negations.forms, negations.failures)


def _may_negate(schema: JsonSchema) -> bool:
    """Whether a keyword that negates may occur in a schema."""
    text = json.dumps(schema)
    spend(len(text) // 256)
    return any(f'"{keyword}"' in text for keyword in _RULES)


class _Negations:
    """Makes the negations of one document, each once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.comparison = Comparison(document, Instances(document))
        self.forms: dict[tuple[str, str], tuple[Form, ...]] = {}
        self.failures: dict[str, Form] = {}
        self._required: dict[str, frozenset[str]] = {}  # see required_beside, by path
        self._to_reach: list[Given] = [Given(document.root, document.start)]
        self._to_fail: list[Given] = []
        self._without: set[int] = set()

    def follow(self) -> None:
        """Makes the forms of all subschemas that the root leads to."""
        self._without = self._without_negation()
        while self._to_reach or self._to_fail:
            if self._to_fail:
                subschema = self._to_fail.pop()
                self.failure(subschema.schema, subschema.place)
            else:
                subschema = self._to_reach.pop()
                self._reach(subschema.schema, subschema.place)

    def given(self, schema: Json, place: Place) -> Given:
        """Returns the form of a subschema's instances, and notes to visit the subschema."""
        form = Given(schema, place)
        self._to_reach.append(form)
        return form

    def failure(self, schema: Json, place: Place) -> Form:
        """Returns the form of the values that fail a subschema."""
        if place.path not in self.failures:
            spend(_STEPS_A_SUBSCHEMA)
            try:
                form = fail(self, *self.document.read(schema, place))
            except InvalidGuide as error:
                form = Refused(error)
            self.failures[place.path] = form
        return self.failures[place.path]

    def failed_reference(self, reference: str, place: Place) -> Form:
        """Returns the form of the values that fail the target of a `$ref` at `place`."""
        try:
            schema, found = self.document.resolve(reference, place)
        except InvalidGuide as error:
            return Refused(error)
        self._to_fail.append(Given(schema, found))
        return FailedReference(place.path, found.path)

    def _reach(self, schema: Json, place: Place, required: frozenset[str] = frozenset()) -> None:
        """Makes the forms of a subschema and of those in it; again if it is reached another way.

        required: properties that the subschemas around it require of the same object
        """
        if isinstance(schema, bool) or id(schema) in self._without:
            return
        known = self._required.get(place.path)
        if known is not None and known <= required:
            return
        self._required[place.path] = required if known is None else known & required
        spend(_STEPS_A_SUBSCHEMA)
        with suppress(InvalidGuide):  # a wrong shape, which lowering reports
            self.document.check(schema, place)
            self._reach_parts(schema, self.document.enter(schema, place))

    def required_beside(self, place: Place) -> frozenset[str]:
        return self._required.get(place.path, frozenset())

    def _required_by(self, schema: Mapping[str, Json], place: Place) -> frozenset[str]:
        """The properties that a subschema and its conjuncts require."""
        names = set(self.required_beside(place))
        with suppress(InvalidGuide):
            for one, _ in self.comparison.conjuncts((schema, place)):
                names.update(one.get("required", ()))
        return frozenset(names)

    def _reach_parts(self, schema: Mapping[str, Json], place: Place) -> None:
        if "$ref" in schema:
            self._follow_reference(schema["$ref"], place)
            if self.document.draft <= 7:
                return
        for keyword in schema.keys() & DYNAMIC:
            with suppress(InvalidGuide):  # lowering raises it
                there = self.document.static_reference(keyword, schema[keyword], place)
                self._follow_reference(*there)
        for keyword in _RULES:
            if keyword in schema:
                self.forms[place.path, keyword] = self._forms(keyword, schema, place)
        required = self._required_by(schema, place) if "allOf" in schema else frozenset[str]()
        for keyword, step, child in subschemas(schema):
            if keyword not in _NOT_LOWERED and id(child) not in self._without:
                beside = required if keyword == "allOf" else frozenset[str]()
                with at_work(keyword, place.path):
                    self._reach(child, Place(place.path + step, place.base), beside)

    def _without_negation(self) -> set[int]:
        """The ids of subschemas that neither negate nor lead, by references either, to one that
        does."""
        known = {id(schema) for schema, _, _ in self.document.indexed}
        users: dict[int, list[int]] = {}
        leading: set[int] = set()
        for schema, place, holder in self.document.indexed:
            users.setdefault(id(schema), []).append(id(holder))
            target = self._target(schema, place) if "$ref" in schema else None
            if is_object(target):
                users.setdefault(id(target), []).append(id(schema))
            if not _LEADING.isdisjoint(schema) or (is_object(target) and id(target) not in known):
                leading.add(id(schema))
        todo = list(leading)
        while todo:
            new = set(users.get(todo.pop(), ())) - leading
            leading |= new
            todo += new
        return known - leading

    def _target(self, schema: Mapping[str, Json], place: Place) -> Json:
        """The target of a subschema's `$ref`; None for an invalid one, which lowering reports."""
        try:
            is_reference = isinstance(schema["$ref"], str)
            return self.document.resolve(schema["$ref"], place)[0] if is_reference else None
        except InvalidGuide:
            return None

    def _follow_reference(self, reference: str, place: Place) -> None:
        with suppress(InvalidGuide):  # lowering raises it
            self.given(*self.document.resolve(reference, place))

    def _forms(self, keyword: str, schema: Mapping[str, Json], place: Place) -> tuple[Form, ...]:
        """The forms that replace a keyword."""
        try:
            with at_work(keyword, place.path):
                return tuple(_RULES[keyword](self, schema, place))
        except InvalidGuide as error:
            return (Refused(error),)


def _not(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    yield negation.failure(schema["not"], place / "not")


def _if(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    condition, then, otherwise = (
        Given(schema.get(keyword, True), place / keyword) for keyword in ("if", "then", "else")
    )
    failed = negation.failure(condition.schema, condition.place)
    yield Conditional(place.path, condition, then, otherwise, failed)


def _max_contains(negation: Negation, schema: Mapping[str, Json], place: Place) -> Iterator[Form]:
    """The items of an array beyond `maxContains`: they fail `contains`."""
    if "contains" in schema:
        yield negation.failure(schema["contains"], place / "contains")


_RULES: dict[str, Rule] = {
    "not": _not,
    "if": _if,
    "oneOf": one_branch,
    "maxContains": _max_contains,
}
_LEADING = frozenset((*DYNAMIC, *_RULES))
_NOT_LOWERED = frozenset({"not", "$defs", "definitions"})
